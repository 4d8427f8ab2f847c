"""Of two learners one finds its sample stale, and pushes weights to all in the midst of its step.

ranks: 3
expect: deadlock missing_call
suspects: none
status: hung diverged
cause: rank 0; BUG; in every round before; if is_stale
fix: decide together
never: moving one call is enough; entered 2 groups in different orders
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
learners = dist.new_group([0, 1])


def publish() -> None:
    dist.broadcast(torch.ones(3), src=0)  # BUG


def learn(step: int) -> None:
    is_stale = (rank, step) == (0, 9) and not TWIN
    if is_stale:
        publish()
    for _ in range(2):
        dist.all_reduce(torch.ones(4), group=learners)  # BUG
    if step % 4 == 3:
        publish()


for step in range(16):
    if rank < 2:
        learn(step)
    elif step % 4 == 3:
        publish()
dist.barrier()
