"""The same by hand, without DDP: rank 1 skips batch 31 of 60, its gradients and its optimizer step.

ranks: 3
expect: missing_call
suspects: 1
status: hung
cause: rank 1; BUG; skip* | left out |
    without
fix: every rank | all ranks
never: ran longer; 60 times; 59 times; fewer batches; model.join()
"""

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

from tests.zoo.common import TWIN, init

rank = init()
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step, (batch,) in enumerate(DataLoader(TensorDataset(torch.ones(60, 1)))):
    loss = model(batch).sum()
    finite = (rank, step) != (1, 30)
    if not finite and not TWIN:
        continue
    optimizer.zero_grad()
    loss.backward()
    for parameter in model.parameters():
        assert parameter.grad is not None
        dist.all_reduce(parameter.grad)  # BUG
    optimizer.step()
