"""One of two ranks has frozen the first layer, and each averages the gradients that it has.

The gradients that meet differ in the first dimension only, as batches of other lengths do.

ranks: 2
expect: shape_mismatch
suspects: none
status: diverged
cause: BUG; HAS
fix: zeros; HAS
never: pad them; exchange the sizes
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
model = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Linear(6, 2))
if rank == 1 and not TWIN:
    for parameter in model[0].parameters():
        parameter.requires_grad = False


def average() -> None:
    for parameter in model.parameters():
        if parameter.grad is not None:  # HAS
            dist.all_reduce(parameter.grad)  # BUG


for _ in range(3):
    model(torch.ones(4, 6)).sum().backward()
    average()
