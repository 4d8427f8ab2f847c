"""Rows of an embedding are asked of the rank that owns them; duplicates go once the counts are out.

Only in round 5 has a rank the same id twice: rank 2 announces three to rank 0, and sends it two.

ranks: 3
expect: split_mismatch
suspects: 2
status: diverged
cause: rank 2; split sizes; exchanged; COUNTS; BUG
fix: before the sizes are exchanged; unchanged
never: network; drop_last; rank 0 changed
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

ROUNDS, IDS = 8, 6


def distinct(ids: torch.Tensor) -> torch.Tensor:
    return torch.tensor(sorted(set(ids.tolist())), dtype=torch.int64)


class Lookup:
    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size

    def ids(self, turn: int) -> torch.Tensor:
        """Six ids, two of each owner; those of one rank in one round are not all different."""
        if (self.rank, turn) == (2, 5):
            return torch.tensor([3, 3, 0, 1, 2, 5])
        return torch.arange(IDS) + turn * self.size

    def by_owner(self, ids: torch.Tensor) -> list[torch.Tensor]:
        return [ids[ids % self.size == owner] for owner in range(self.size)]

    def ask(self, turn: int) -> torch.Tensor:
        wanted = self.by_owner(distinct(self.ids(turn)) if TWIN else self.ids(turn))
        counts = torch.tensor([len(part) for part in wanted])
        coming = torch.empty_like(counts)
        dist.all_to_all_single(coming, counts)  # COUNTS
        wanted = [distinct(part) for part in wanted]
        asked = torch.empty(int(coming.sum()), dtype=torch.int64)
        sizes = [len(part) for part in wanted]
        dist.all_to_all_single(asked, torch.cat(wanted), coming.tolist(), sizes)  # BUG
        return asked


lookup = Lookup(init(), dist.get_world_size())
for turn in range(ROUNDS):
    lookup.ask(turn)
dist.destroy_process_group()
