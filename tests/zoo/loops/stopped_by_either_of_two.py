"""Rank 1 runs out of its time and leaves; that rank 0 may leave by its patience tells nothing.

ranks: 2
expect: op_mismatch role_mismatch
suspects: none
status: diverged
cause: rank 1; BUG; SPENT; ambiguous
fix: every rank
never: drop_last; rank 0 is out; STOP
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

STEPS = 12
BUDGETS = (99, 99 if TWIN else 5)


def fit(rank: int) -> None:
    weight = torch.ones(4)
    for spent in range(1, STEPS):
        gradient = weight * 0.1
        dist.all_reduce(gradient)  # BUG
        weight -= gradient / dist.get_world_size()
        if rank == 0 and float(weight.square().mean()) < 1e-9:  # STOP
            break
        if spent >= BUDGETS[rank]:  # SPENT
            break
    dist.barrier()


fit(init())
dist.destroy_process_group()
