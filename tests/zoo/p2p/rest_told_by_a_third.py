"""Rank 4 tells server and workers who rests; the server passes over it in step 6.

ranks: 5
expect: deadlock p2p_unmatched missing_call p2p_mismatch
suspects: none
status: hung diverged
cause: rank 3; rank 0; send
fix: rank 0 | rank 3 | every rank
never: rank 3 alone
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

STEPS = 10
REST = 6


def told() -> int:
    who = torch.zeros(1, dtype=torch.int64)
    dist.recv(who, src=4)
    return int(who.item())


def serve() -> None:
    table = torch.zeros(4)
    for _ in range(STEPS):
        resting = told()
        for worker in (1, 2, 3):
            if TWIN and worker == resting:
                continue
            dist.recv(torch.zeros(4), src=worker, tag=1)  # BUG
        for worker in (1, 2, 3):
            dist.send(table, dst=worker, tag=2)


def work(rank: int) -> None:
    table = torch.zeros(4)
    for _ in range(STEPS):
        resting = told()
        if rank != resting:
            dist.send(table, dst=0, tag=1)
        dist.recv(table, src=0, tag=2)


rank = init()
if rank == 4:
    for step in range(STEPS):
        for one in range(4):
            dist.send(torch.tensor([3 if step == REST else -1]), dst=one)
elif rank == 0:
    serve()
else:
    work(rank)
dist.barrier()
