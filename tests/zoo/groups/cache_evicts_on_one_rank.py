"""Groups of pairs are kept in a cache of two; a look-up for rank 0's log alone changes their order.

Later ranks 1 and 2 make anew a group that rank 0 still has, and rank 0 is in a sum that rank 1 does
not come to: each holds the other up.

ranks: 3
expect: group_mismatch missing_call
suspects: 0
status: diverged hung
cause: BUG; rank 0; rank 1; all_reduce; same order
fix: every rank
never: network; drop_last; rank 1 died
"""

from collections import OrderedDict

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

PAIRS = [(0, 1), (1, 2), (0, 2)]


class Groups:
    def __init__(self) -> None:
        self.known: OrderedDict[tuple[int, int], dist.ProcessGroup] = OrderedDict()

    def of(self, pair: tuple[int, int]) -> dist.ProcessGroup:
        if pair not in self.known:
            if len(self.known) == 2:
                self.known.popitem(last=False)
            self.known[pair] = dist.new_group(list(pair))  # BUG
        self.known.move_to_end(pair)
        return self.known[pair]


rank = init()
groups = Groups()


def average(pair: tuple[int, int]) -> None:
    group = groups.of(pair)
    if rank in pair:
        dist.all_reduce(torch.ones(3), group=group)  # BUG


for pair in (PAIRS[0], PAIRS[1], PAIRS[0], PAIRS[1]):
    average(pair)
if rank == 0 and not TWIN:
    print("first pair:", groups.of(PAIRS[0]))
for pair in (PAIRS[2], PAIRS[0], PAIRS[1]):
    average(pair)
