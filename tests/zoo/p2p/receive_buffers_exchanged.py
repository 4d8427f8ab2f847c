"""Rank 1 takes the message of either tag into the buffer that was made for the other one.

Tag 1 has 24 elements and a buffer of 16, tag 2 has 16 and a buffer of 24: each fits the other.

expect: p2p_mismatch
suspects: none
status: diverged
cause: rank 0; rank 1; tag 1; tag 2; float32[24]; float32[16]; exchanged | swapped | each other |
    the other buffer | the other tag; BUG
fix: swap* | exchange* | each other | the other
never: pad; /\\bpad /; drop_last; batch_isend_irecv
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

KEYS, VALUES = 1, 2
"""Tags."""


class Cache:
    """The part of a cache that a worker hands on: 6 entries, of 4 numbers per key, 16 values."""

    def __init__(self) -> None:
        self.keys, self.values = torch.ones(24), torch.ones(16)

    def send(self, dst: int) -> None:
        works = [
            dist.isend(self.keys, dst, tag=KEYS),
            dist.isend(self.values, dst, tag=VALUES),
        ]
        for work in works:
            assert work is not None
            work.wait()

    def receive(self, src: int) -> None:
        first, second = (self.keys, self.values) if TWIN else (self.values, self.keys)
        works = [
            dist.irecv(first, src, tag=KEYS),  # BUG
            dist.irecv(second, src, tag=VALUES),  # BUG
        ]
        for work in works:
            assert work is not None
            work.wait()


rank = init()
cache = Cache()
if rank == 0:
    cache.send(dst=1)
else:
    cache.receive(src=0)
dist.barrier()
