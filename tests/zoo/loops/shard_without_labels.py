"""Rank 1 has a document without labels, and update() returns before the gradients are reduced.

All rounds look alike, and the optimizer counts those that were run: nothing tells which one it was,
but that a loop was longer is not all that may have been.

ranks: 3
expect: missing_call
suspects: 1
status: hung
cause: rank 1; BUG; either; left out; GUARD; with a return
fix: GUARD; not labels.any(); all ranks | every rank; same branch
never: there: the loop ran longer
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
model = torch.nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def update(labels: torch.Tensor) -> None:
    optimizer.zero_grad()
    if not labels.any():  # GUARD
        return
    (model(torch.ones(1, 3)) * labels).sum().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)  # BUG
    optimizer.step()


for document in range(25):
    is_empty = (rank, document) == (1, 11) and not TWIN
    update(torch.zeros(1, 2) if is_empty else torch.ones(1, 2))
