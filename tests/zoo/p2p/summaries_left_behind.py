"""Two readers send their summaries with isend, and are done: the writer asks for them later.

The first summary is waited for, as it tells the writer that there is something to come.

ranks: 3
expect: p2p_unmatched
suspects: 1 2
status: hung
limit: 20
cause: isend; ranks 1-2 | rank 1; BUG; ASKED; left | ended; wait*
fix: wait(); before the process ends
never: network; longer timeout; rank 0 left
"""

import time

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

SHARDS = 3


def summary(shard: int) -> torch.Tensor:
    return torch.arange(4096.0) + shard


def read(rank: int) -> None:
    dist.send(torch.tensor([SHARDS]), dst=0)
    under_way = []
    for shard in range(SHARDS):
        values = summary(10 * rank + shard)
        work = dist.isend(values, dst=0)  # BUG
        assert work is not None
        under_way.append((values, work))
    for _, work in under_way if TWIN else []:
        work.wait()


def write(readers: int) -> None:
    count = torch.zeros(1, dtype=torch.int64)
    for reader in range(1, readers + 1):
        dist.recv(count, src=reader)
    time.sleep(1)  # it opens its file
    for reader in range(1, readers + 1):
        for _ in range(int(count)):
            dist.recv(torch.empty(4096), src=reader)  # ASKED


rank = init()
if rank == 0:
    write(dist.get_world_size() - 1)
else:
    read(rank)
dist.destroy_process_group()
