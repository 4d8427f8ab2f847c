"""Rank 0 fills the buffer of an isend with the next block before it has waited for the send.

Blocks are larger than what the socket takes at once, so rank 1 gets part of the next one.

expect: unwaited_work
severity: warning
suspects: 0
status: aligned
cause: rank 0; wrote | changed; before; isend | send; BUG
fix: after wait* | copy
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

BLOCK = 1 << 20


class Sender:
    """Streams blocks to rank 1 from one staging buffer."""

    def __init__(self) -> None:
        self.staging = torch.empty(BLOCK)
        self.work: dist.Work | None = None

    def drain(self) -> None:
        if self.work is not None:
            self.work.wait()
            self.work = None

    def send(self, block: torch.Tensor) -> None:
        if TWIN:
            self.drain()
        self.staging.copy_(block)
        self.drain()
        self.work = dist.isend(self.staging, dst=1)  # BUG


def receive(blocks: int) -> None:
    for number in range(blocks):
        block = torch.empty(BLOCK)
        dist.recv(block, src=0)
        print(number, float(block.min()), float(block.max()), flush=True)


rank = init()
if rank == 0:
    sender = Sender()
    for number in range(3):
        sender.send(torch.full((BLOCK,), float(number)))
    sender.drain()
else:
    receive(3)
dist.barrier()
