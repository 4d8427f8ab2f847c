"""Messages of two sizes in turn; the sender leaves one out, and all behind it meet others.

ranks: 2
expect: p2p_mismatch
suspects: none
status: diverged hung
cause: SENT; BUG; rank 0 left out 1 send; meets the wrong recv
fix: left out; leave out
never: in other orders; neighbour on both sides; size of the tensor; pad it
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

SIZES = [4, 8] * 5

rank = init()
works = []
for n, size in enumerate(SIZES):
    if rank == 1:
        works.append(dist.irecv(torch.empty(size), 0))  # BUG
    elif TWIN or n != 4:
        works.append(dist.isend(torch.ones(size), 1))  # SENT
for work in works:
    assert work is not None
    work.wait()
