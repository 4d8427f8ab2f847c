r"""Two hosts of two ranks; the second of each keeps its hits, and merges them with the other.

The keeper of a host that hit nothing has nothing to merge, and goes on. The other keeper waits for
it, and everybody else where the recall is summed up.

ranks: 4
expect: deadlock missing_call
suspects: 3
status: hung
cause: rank 3; BUG; EMPTY; alone left out; 4 times before
fix: zeros | empty; decide together
never: rank 1 alone; rank 2 left; network; drop_last
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, TWIN, init

QUERIES, CLASSES = 3, 24


class Hits:
    """How often each class was found, of all hosts."""

    def __init__(self, rank: int) -> None:
        hosts = [dist.new_group([at, at + 1], timeout=TIMEOUT) for at in (0, 2)]
        self.rank, self.host = rank, hosts[rank // 2]
        self.keeper = rank // 2 * 2 + 1
        self.keepers = dist.new_group([1, 3], timeout=TIMEOUT)

    def merge(self, found: torch.Tensor) -> None:
        if not found.any() and not TWIN:  # EMPTY
            return
        dist.all_reduce(found, group=self.keepers)  # BUG

    def add(self, found: torch.Tensor) -> torch.Tensor:
        dist.reduce(found, dst=self.keeper, group=self.host)
        if self.rank == self.keeper:
            self.merge(found)
        dist.broadcast(found, src=self.keeper, group=self.host)
        return found


def answers(rank: int, round_: int, query: int) -> torch.Tensor:
    nothing = rank > 1 and (round_, query) == (1, 1)
    return torch.zeros(CLASSES) if nothing else torch.full((CLASSES,), rank + 1.0)


def main() -> None:
    rank = init()
    hits = Hits(rank)
    for round_ in range(3):
        total = torch.zeros(CLASSES)
        for query in range(QUERIES):
            total += hits.add(answers(rank, round_, query))
        recall = total.mean().reshape(1)
        dist.all_reduce(recall)
        print(round_, recall.item(), flush=True)
    dist.destroy_process_group()


main()
