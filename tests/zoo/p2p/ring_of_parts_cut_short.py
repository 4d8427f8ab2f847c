"""Parts of documents of several lengths go round a ring; of one the last rank has a shorter part.

ranks: 4
expect: p2p_mismatch
suspects: 3
status: diverged hung
cause: rank 3 alone; ranks 0-2; BUG; size
fix: pad; rank 3
never: network; drop_last; rank 0 alone
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

LENGTHS = (16, 8, 24, 12, 22, 16)


def part_of(length: int, rank: int, world: int) -> torch.Tensor:
    if TWIN:
        length -= length % world
    rows = -(-length // world)
    return torch.ones(length, 2)[rank * rows : (rank + 1) * rows].contiguous()


def passed_on(part: torch.Tensor, rank: int, world: int) -> torch.Tensor:
    got = torch.empty_like(part)
    works = dist.batch_isend_irecv(  # BUG
        [
            dist.P2POp(dist.isend, part, (rank + 1) % world),
            dist.P2POp(dist.irecv, got, (rank - 1) % world),
        ]
    )
    for work in works:
        work.wait()
    return got


rank = init()
world = dist.get_world_size()
for length in LENGTHS:
    part = part_of(length, rank, world)
    total = part.sum()
    for _ in range(world - 1):
        part = passed_on(part, rank, world)
        total += part.sum()
    dist.all_reduce(total)
dist.barrier()
