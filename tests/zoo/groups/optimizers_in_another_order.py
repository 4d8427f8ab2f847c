"""Optimizers of several groups are gone through in a list that rank 0 fills the other way round.

ranks: 3
expect: deadlock
suspects: 0
status: hung
cause: rank 0; BUG; CHAIN
fix: CHAIN; one order
never: left out; return; ambiguous
limit: 15
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
dense, expert = (dist.new_group([0, 1, 2]) for _ in range(2))


class Optimizer:
    def __init__(self, group: dist.ProcessGroup) -> None:
        self.group = group

    def norm(self) -> torch.Tensor:
        value = torch.ones(1)
        dist.all_reduce(value, group=self.group)  # BUG
        return value


class Chained:
    def __init__(self, chain: list[Optimizer]) -> None:
        self.chain = chain

    def step(self) -> None:
        norms = [one.norm() for one in self.chain]  # CHAIN
        assert norms


first = Chained([Optimizer(dense)])
for _ in range(3):
    first.step()
both = [Optimizer(dense), Optimizer(expert)]
then = Chained(both[::-1] if rank == 0 and not TWIN else both)
for _ in range(3):
    then.step()
