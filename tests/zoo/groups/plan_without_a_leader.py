"""The plan that rank 0 hands out leaves rank 4 out, but it is in the group of those that meet.

All other ranks go by lines that are new to all, and rank 4 alone does not: but each was told what
to do, so it cannot be seen whether rank 4 or the plan is wrong.

ranks: 5
expect: deadlock missing_call
suspects: none
status: hung
cause: rank 4; BUG
fix: every rank | all ranks | same order
never: drop_last; join(); rank 4 alone
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

LEADERS = [0, 2, 4]


def train(rank: int, steps: int) -> None:
    for step in range(steps):
        loss = torch.tensor([float(step + rank)])
        dist.all_reduce(loss)


def rebalance(rank: int, leaders: dist.ProcessGroup, plan: list[int]) -> None:
    if not plan[rank]:
        return
    load = torch.ones(16)
    if rank in LEADERS:
        dist.all_reduce(load, group=leaders)  # BUG
    dist.all_reduce(load[:2].clone(), group=helpers if rank in (1, 3) else leaders)


rank = init()
leaders, helpers = dist.new_group(LEADERS), dist.new_group([1, 3])
train(rank, steps=4)
plan = torch.ones(5, dtype=torch.int64)
if rank == 0:
    plan[4] = int(TWIN)
dist.broadcast(plan, src=0)
rebalance(rank, leaders, plan.tolist())
train(rank, steps=2)
dist.destroy_process_group()
