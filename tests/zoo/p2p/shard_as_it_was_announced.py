"""Workers tell the root how many rows come; in the fifth round the root goes by another's number.

Nobody may be blamed: by the messages alone the one that sends fewer is as odd as in
shard_of_one_row_less, and it had said so.

ranks: 5
expect: p2p_mismatch
suspects: none
status: diverged hung
cause: rank 3; send; recv; ROWS; BUG; `found = rows(rank, number)`
fix: size | shape
never: network; same line each time
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

ROUNDS, MOST = 7, 4


def rows(rank: int, number: int) -> torch.Tensor:
    return torch.full((MOST - ((rank, number) == (3, 4)), 2), float(rank))


rank = init()
for number in range(ROUNDS):
    if rank:
        found = rows(rank, number)
        dist.send(torch.tensor([len(found)]), dst=0, tag=1)
        dist.send(found, dst=0)  # ROWS
        continue
    count = torch.zeros(1, dtype=torch.int64)
    for worker in range(1, dist.get_world_size()):
        told = torch.zeros(1, dtype=torch.int64)
        dist.recv(told, src=worker, tag=1)
        count = told if TWIN or worker == 1 else count
        part = torch.empty(int(count), 2)
        dist.recv(part, src=worker)  # BUG
dist.barrier()
