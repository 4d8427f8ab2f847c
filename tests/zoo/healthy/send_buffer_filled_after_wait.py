"""Two staging buffers take turns, and a send is waited for before its buffer is filled again.

Other tensors are written to meanwhile, and so is another part of the buffer's owner.

expect: nothing
status: aligned
"""

import torch
import torch.distributed as dist

from tests.zoo.common import init

BLOCK = 1 << 16


class Sender:
    def __init__(self) -> None:
        self.staging = [torch.empty(BLOCK), torch.empty(BLOCK)]
        self.works: list[dist.Work | None] = [None, None]
        self.sent = torch.zeros(1)

    def wait(self, slot: int) -> None:
        work = self.works[slot]
        if work is not None:
            work.wait()
        self.works[slot] = None

    def send(self, number: int) -> None:
        slot = number % 2
        self.wait(slot)
        self.staging[slot].fill_(float(number))
        self.works[slot] = dist.isend(self.staging[slot], dst=1)
        self.sent += 1

    def drain(self) -> None:
        for slot in (0, 1):
            self.wait(slot)


rank = init()
if rank == 0:
    sender = Sender()
    for number in range(6):
        sender.send(number)
    sender.drain()
else:
    block = torch.empty(BLOCK)
    for number in range(6):
        work = dist.irecv(block, src=0)
        assert work is not None
        work.wait()
        assert float(block.min()) == float(block.max()) == number
        block.zero_()
dist.barrier()
