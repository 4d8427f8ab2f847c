r"""The first rank of a host fills its cache, the others wait; one finds it filled and goes on.

Nothing of the kind was called before. But on the other host the first rank came to the barrier.

ranks: 4
expect: deadlock missing_call
suspects: 2
status: hung
cause: rank 2; BUG; FILLED; Ranks 0-1 made that call | as rank 0, in its place of another group
fix: as rank 0 does | every rank
never: rank 3 alone; rank 0 left; network; drop_last
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, TWIN, init


class Cache:
    def __init__(self, rank: int) -> None:
        hosts = [dist.new_group([at, at + 1], timeout=TIMEOUT) for at in (0, 2)]
        self.host, self.is_first = hosts[rank // 2], rank % 2 == 0
        self.files = {2: torch.ones(8)} if rank == 2 else {}

    def fill(self, key: int) -> None:
        if key in self.files and not TWIN:  # FILLED
            return
        self.files[key] = torch.ones(8)
        dist.barrier(self.host)  # BUG

    def open(self, key: int) -> torch.Tensor:
        if self.is_first:
            self.fill(key)
        else:
            dist.barrier(self.host)
        return torch.ones(8)


def train(weights: torch.Tensor, data: torch.Tensor) -> None:
    for part in data.reshape(2, 4):
        gradient = weights * part.mean()
        dist.all_reduce(gradient)
        weights -= 0.1 * gradient / dist.get_world_size()


def main() -> None:
    rank = init()
    cache, weights = Cache(rank), torch.ones(32)
    for epoch in range(4):
        data = cache.open(epoch) if epoch == 2 else torch.ones(8)
        train(weights, data)
    dist.barrier()
    dist.destroy_process_group()


main()
