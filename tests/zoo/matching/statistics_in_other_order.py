"""A dict of running statistics is reduced entry by entry; rank 2 has filled its own anew at step 4.

It evicts what it has not seen for a while, and so a name moves to the end of its dict. In all
rounds before, the ranks reduced the entries in one order.

ranks: 3
expect: shape_mismatch
suspects: 2
status: diverged
cause: rank 2; BUG | REDUCE; order; for name, value in; 4 equal rounds
fix: sorted | one order | same order
never: pad; ragged; drop_last; rank 0 comes
"""

import torch

from tests.zoo import comm
from tests.zoo.common import TWIN, init

SIZES = {"count": 1, "mean": 6, "covariance": 36, "histogram": 12}


class Statistics:
    def __init__(self) -> None:
        self.values = {name: torch.zeros(size) for name, size in SIZES.items()}

    def evict(self, name: str) -> None:
        del self.values[name]
        self.values[name] = torch.zeros(SIZES[name])

    def reduce(self) -> None:
        entries = sorted(self.values.items()) if TWIN else self.values.items()
        for name, value in entries:
            self.values[name] = comm.total(value)  # BUG


rank = init()
statistics = Statistics()
for step in range(7):
    if (rank, step) == (2, 4):
        statistics.evict("mean")
    comm.total(torch.ones(3))
    statistics.reduce()
