"""Rank 1 reduces accuracy before loss: the same bytes, and the two numbers are mixed up.

ranks: 3
expect: role_mismatch
severity: warning
suspects: 1
status: aligned
cause: rank 1; order; all_reduce; BUG
fix: same order
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def reduce_loss() -> None:
    dist.all_reduce(torch.tensor([2.0]))  # BUG


def reduce_accuracy() -> None:
    dist.all_reduce(torch.tensor([0.5]))  # BUG


rank = init()
for _ in range(3):
    metrics = [reduce_loss, reduce_accuracy]
    if rank == 1 and not TWIN:
        metrics.reverse()
    for metric in metrics:
        metric()
