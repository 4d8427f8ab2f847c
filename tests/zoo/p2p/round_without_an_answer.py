"""Both ranks have a plan in which one round needs no answer; rank 0 goes by an old one, and waits.

By the calls rank 1 left its round, past a handler. But by an exception of the script's own, and
rank 0 asks whom map() is given.

ranks: 2
expect: deadlock missing_call p2p_unmatched
suspects: none
status: hung diverged
cause: rank 0; rank 1; BUG; except NotMine
fix: every round
never: nothing in the source leads; an exception was caught there; drop_last
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

PLAN = [[1]] * 5 + [[]] + [[1]] * 2


class NotMine(Exception):
    """By the plan the round needs nothing of this worker."""


def take(worker: int) -> None:
    dist.recv(torch.ones(2), worker)  # BUG


def answer(step: int) -> torch.Tensor:
    if not PLAN[step]:
        raise NotMine(step)
    return torch.ones(2)


rank, total = init(), torch.ones(1)
for step in range(8):
    if rank == 0:
        list(map(take, PLAN[step] if TWIN else [1]))
    else:
        try:
            dist.send(answer(step), 0)  # BUG
        except NotMine:
            print("nothing to answer", flush=True)
    dist.all_reduce(total)
