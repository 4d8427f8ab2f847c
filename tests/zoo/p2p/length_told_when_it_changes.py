"""A reader tells how long a record is where that changes; the other end asks for it once.

Both ends are at one line of the project's own module: its callers tell them apart.

expect: p2p_mismatch
suspects: none
status: diverged
cause: BUG; TAKES; comm.py:27; int64[1]; float32[4]
fix: dtype; same messages
never: drop_last; the network; rank 0 left; rank 1 left
"""

import torch
import torch.distributed as dist

from tests.zoo import comm
from tests.zoo.common import TWIN, init

LENGTHS = (4, 4, 6, 6)


def read() -> None:
    told = 0
    for length in LENGTHS:
        if TWIN or length != told:
            comm.give(torch.tensor([length]), 1)  # BUG
        comm.give(torch.ones(length), 1)
        told = length


def learn() -> None:
    length = 0
    for _ in LENGTHS:
        if TWIN or not length:
            length = int(comm.take(torch.zeros(1, dtype=torch.int64), 0))
        comm.take(torch.zeros(length), 0)  # TAKES


read() if init() == 0 else learn()
dist.barrier()
