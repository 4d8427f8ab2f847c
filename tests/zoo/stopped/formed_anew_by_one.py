"""Rank 1 tears its process group down over a bad value, and forms the job anew; alone.

ranks: 3
expect: missing_call
suspects: 1
status: hung
cause: rank 1; destroyed its process groups; GONE; BUG; BAD; had not left the job
fix: Tear the job down together; BAD
never: left no file; ranks 0, 2 never came; launcher
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, TWIN, init


def form_anew(times: int) -> None:
    dist.destroy_process_group()  # GONE
    dist.init_process_group(
        "gloo",
        store=dist.distributed_c10d.PrefixStore(str(times), store),
        rank=rank,
        world_size=world,
        timeout=TIMEOUT,
    )


def train(steps: int) -> None:
    times = 1
    for step in range(steps):
        bad = torch.tensor(float((rank, step) == (1, 4)))
        if TWIN:
            dist.all_reduce(bad, op=dist.ReduceOp.MAX)
        if bad:  # BAD
            times += 1
            form_anew(times)
            continue
        dist.all_reduce(torch.ones(3))  # BUG


rank = init()
world = dist.get_world_size()
store = dist.distributed_c10d._get_default_store()
dist.all_reduce(torch.ones(2))
form_anew(1)
train(7)
