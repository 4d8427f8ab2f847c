"""A wrapper gathers for a method that nothing else calls; rank 1's own buffer is full too early.

The two lines of the wrapper and of the reduction tell nothing: those that called them do.

ranks: 3
expect: op_mismatch
suspects: 1
status: diverged
cause: rank 1; all_gather; `if len(self.kept) >= self.room:`; room=6 if rank == 1
fix: len(self.kept) >= self.room; decide together; every rank
never: ragged; pad; rank 0 left; rank 2 left
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


class Wire:
    def everything(self, part: torch.Tensor) -> list[torch.Tensor]:
        parts = [torch.empty_like(part) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, part)
        return parts

    def add(self, value: torch.Tensor) -> None:
        dist.all_reduce(value)


class Replay:
    def __init__(self, wire: Wire, room: int) -> None:
        self.wire, self.room, self.kept = wire, room, list[torch.Tensor]()

    def share(self) -> None:
        self.wire.everything(torch.stack(self.kept))  # BUG
        self.kept.clear()

    def keep(self, value: torch.Tensor) -> None:
        self.kept.append(value)
        if len(self.kept) >= self.room:
            self.share()


rank = init()
wire = Wire()
replay = Replay(wire, room=6 if rank == 1 and not TWIN else 8)
for step in range(8):
    value = torch.full((2,), float(step))
    wire.add(value)
    replay.keep(value)
