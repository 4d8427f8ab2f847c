"""Workers fetch the tables of a run from rank 0, each once; one has lost one, and asks again.

Rank 0 keeps a list of who has which, and sends what is new to any.

ranks: 4
expect: deadlock p2p_unmatched
suspects: 3
status: hung
cause: rank 3 alone; BUG; ranks 1-2; as rank 0 did
fix: decided alike; at both ends
never: drop_last; network; rank 0 left; zeros
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

TABLES, PASSES = 4, 3


class Tables:
    """What a worker has fetched; there is room for all of them, or for fewer."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.kept: dict[int, torch.Tensor] = {}

    def get(self, number: int) -> torch.Tensor:
        found = self.kept.get(number)
        if found is not None:
            return found
        table = torch.zeros(3)
        dist.recv(table, src=0)  # BUG
        self.kept[number] = table
        if len(self.kept) > self.room:
            del self.kept[min(self.kept)]
        return table


class Source:
    """Rank 0, which has them all, and knows what it has sent."""

    def __init__(self) -> None:
        self.sent: set[int] = set()

    def get(self, number: int) -> torch.Tensor:
        table = torch.full((3,), float(number))
        if number not in self.sent:
            self.sent.add(number)
            for worker in range(1, dist.get_world_size()):
                dist.send(table, dst=worker)
        return table


rank = init()
room = TABLES - 1 if rank == 3 and not TWIN else TABLES
tables = Source() if rank == 0 else Tables(room)
for _ in range(PASSES):
    for number in range(TABLES):
        mean = tables.get(number).mean()
        dist.all_reduce(mean)
dist.barrier()
