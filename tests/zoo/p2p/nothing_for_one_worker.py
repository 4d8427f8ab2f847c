"""Rank 0 hands out files, and tells who gets none; in round 3 it stops at the end of its list.

The worker without a file was told nothing, and asks for its first as the others did.

ranks: 4
expect: deadlock missing_call p2p_unmatched
suspects: 0
status: hung diverged
cause: rank 0; skipped send to rank 3; `if number >= count and not TWIN:`; BUG; rank 3
fix: something to each; every iteration; broadcast
never: drop_last; zeros; rank 3 left; the network
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

FILES = (5, 4, 6, 2, 3)
NONE = -1


def hand_out(count: int, workers: range) -> None:
    for number, worker in enumerate(workers):
        if number >= count and not TWIN:
            break
        dist.send(torch.tensor([number if number < count else NONE]), worker)
    for number in range(len(workers), count):
        worker = workers[number % len(workers)]
        dist.send(torch.tensor([number]), worker)
    for number, worker in enumerate(workers):
        if number < count:
            dist.send(torch.tensor([NONE]), worker)


def work() -> int:
    done, file = 0, torch.zeros(1, dtype=torch.int64)
    while True:
        dist.recv(file, 0)  # BUG
        if file.item() == NONE:
            return done
        done += 1


rank, done = init(), torch.zeros(1)
for count in FILES:
    if rank == 0:
        hand_out(count, range(1, dist.get_world_size()))
    else:
        done += work()
    dist.all_reduce(done)  # BUG
