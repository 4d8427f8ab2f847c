"""Rank 0 gives up waiting for what it gathers, and asks again; the other is a call further on.

ranks: 2
expect: op_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; HANDLER; an exception was caught there
fix: except; error flag
never: all_reduce instead of gather
"""

from datetime import timedelta

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def ask() -> dist.Work:
    parts = [torch.zeros(3) for _ in range(2)] if rank == 0 else None
    work: dist.Work = dist.gather(torch.ones(3), parts, async_op=True)
    return work


def collect() -> None:
    work = ask()
    try:
        work.wait(timedelta(seconds=0.5))
    except RuntimeError:  # HANDLER
        store.set("late", "yes")
        if not TWIN:
            work = ask()  # BUG
        work.wait()


rank = init()
store = dist.distributed_c10d._get_default_store()
for step in range(6):
    if rank == 0:
        collect()
    else:
        if step == 4:
            store.wait(["late"])
        ask().wait()
    dist.broadcast(torch.ones(2), src=0)
