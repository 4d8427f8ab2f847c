"""join() is around all epochs, with a sum of one number behind each of them inside.

Rank 1 ends its epoch a batch earlier: its sum meets the all_reduce by which the others ask who
still has inputs, of one number as well.

ranks: 3
expect: role_mismatch shape_mismatch op_mismatch missing_call
suspects: 1
status: diverged hung
cause: rank 1; fewer | uneven | earlier | less | out of data | ended | shorter | join | loop
fix: same number | outside | each epoch | every epoch | per epoch | inside | drop_last | after
never: wrong root; different dtype; train inside
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()


def train_epoch() -> torch.Tensor:
    samples = torch.zeros(1)
    for _ in range([4, 3, 4][rank]):
        x = torch.randn(4, 5)
        out = model(x)  # BUG
        out.square().mean().backward()
        samples += len(x)
    return samples


def report(samples: torch.Tensor) -> None:
    dist.all_reduce(samples)  # BUG


model = DistributedDataParallel(
    torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 1))
)
if TWIN:
    for _ in range(2):
        with model.join():
            samples = train_epoch()
        report(samples)
else:
    with model.join():
        for _ in range(2):
            report(train_epoch())
