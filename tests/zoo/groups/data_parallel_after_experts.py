"""Three of four ranks reduce over all ranks, then in their pair of experts; rank 3 the other way.

A step goes through a dictionary of groups. The layout in rank 3's environment lists the experts
first, so its dictionary has another order.

ranks: 4
expect: deadlock missing_call
suspects: 3
status: hung
cause: rank 3; order*; LOOP | LAYOUT; BUG
fix: order | sorted
never: /pass (it |them )?(in )?the same (process )?group/; same group on every rank; ambiguous;
    do not show which; wrong group
"""

import os

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, TWIN, init


def make_groups(rank: int) -> dict[str, dist.ProcessGroup]:
    data = dist.new_group([0, 1, 2, 3], timeout=TIMEOUT)
    pairs = [dist.new_group(pair, timeout=TIMEOUT) for pair in ([0, 1], [2, 3])]
    made = {"data": data, "experts": pairs[rank // 2]}
    names = os.environ.get("LAYOUT", "data,experts").split(",")
    return {name: made[name] for name in names}  # LAYOUT


class Engine:
    def __init__(self, groups: dict[str, dist.ProcessGroup]) -> None:
        self.groups = groups
        self.gradients = {"data": torch.ones(8), "experts": torch.ones(4)}

    def reduce_gradients(self) -> None:
        for name, group in self.groups.items():  # LOOP
            gradient = self.gradients[name]
            dist.all_reduce(gradient, group=group)  # BUG
            gradient /= dist.get_world_size(group)

    def step(self) -> None:
        for gradient in self.gradients.values():
            gradient.fill_(1.0)
        self.reduce_gradients()


rank = init()
if rank == 3 and not TWIN:
    os.environ["LAYOUT"] = "experts,data"
engine = Engine(make_groups(rank))
for _ in range(3):
    engine.step()
dist.destroy_process_group()
