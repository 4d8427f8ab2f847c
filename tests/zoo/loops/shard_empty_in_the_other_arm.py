"""Rank 1 has no rows in an epoch, so that it takes the arm for those: past the loop over them.

Its call stands behind that at which both were last; but no turn leads through the two.

ranks: 2
expect: op_mismatch
suspects: none
status: diverged
cause: rank 1; BUG; `for row in rows:`; more iterations on rank 0; torch.ones(0 if
fix: every rank | all ranks | same
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def train(model: torch.nn.Module, rows: torch.Tensor) -> torch.Tensor:
    loss = torch.zeros(1)
    for row in rows:
        loss = model(row).square().mean()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
    return loss.detach()


rank = init()
model = torch.nn.Linear(4, 1)
for epoch in range(7):
    rows = torch.ones(0 if (rank, epoch) == (1, 5) and not TWIN else 3, 2, 4)
    loss = train(model, rows)
    if len(rows):  # ARM
        dist.all_reduce(loss)
    else:
        dist.broadcast(loss, src=0)  # BUG
