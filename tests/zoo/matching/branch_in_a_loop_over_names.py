"""A function in a loop over names asks for a setting of its own: the names come in one order.

ranks: 2
expect: op_mismatch
suspects: none
status: diverged
cause: BUG; SETTING; rank 1
fix: every rank
never: over a set; another order; one order; PYTHONHASHSEED; sorted
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()


class Reducer:
    compressed = rank == 1 and not TWIN

    def reduce(self, name: str, value: torch.Tensor) -> None:
        if self.compressed:  # SETTING
            dist.all_gather([torch.empty(4), torch.empty(4)], value)  # BUG
        else:
            dist.all_reduce(value)


reducer = Reducer()
names = {"weight": 1.0, "bias": 2.0}
for _ in range(3):
    for name in names:
        reducer.reduce(name, torch.ones(4))
