"""Rank 2 holds its critic back for a step; gradients of two models of one size are summed.

ranks: 3
expect: role_mismatch
suspects: 2
status: diverged
cause: rank 2; BUG; STEP; left out; the gradients of one model meet those of another; HOLD
fix: on every rank or on none
never: unused; in one order
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init


def train_critic(step: int, batch: torch.Tensor) -> None:
    ahead = strength > step == 5 and not TWIN
    loss = critic(batch).square().mean()
    if not ahead:  # HOLD
        loss.backward()  # BUG


def train_generator(batch: torch.Tensor) -> None:
    generator(batch).sum().backward()


strength = 3.0 * init()
critic, generator = (DistributedDataParallel(torch.nn.Linear(6, 6)) for _ in range(2))
for epoch in range(2):
    for step in range(4):
        batch = torch.ones(2, 6)
        train_critic(4 * epoch + step, batch)  # STEP
        train_generator(batch)
    dist.all_reduce(torch.ones(2))
