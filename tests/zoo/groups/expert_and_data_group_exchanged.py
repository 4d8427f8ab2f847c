"""All ranks go through their groups in one order, but rank 3 has them under each other's names.

It looks like another order of the loop, and is none: each name has the wrong group there.

ranks: 4
expect: deadlock missing_call group_mismatch shape_mismatch
suspects: 3
status: hung diverged
cause: rank 3; group*; BUG
fix: group
never: ambiguous; drop_last; pad; /give the loop/
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, TWIN, init


def make_groups(rank: int) -> dict[str, dist.ProcessGroup]:
    data = dist.new_group([0, 1, 2, 3], timeout=TIMEOUT)
    pairs = [dist.new_group(pair, timeout=TIMEOUT) for pair in ([0, 1], [2, 3])]
    return {"data": data, "experts": pairs[rank // 2]}


class Engine:
    def __init__(self, groups: dict[str, dist.ProcessGroup]) -> None:
        self.groups = groups
        self.gradients = {"data": torch.ones(8), "experts": torch.ones(4)}

    def reduce_gradients(self) -> None:
        for name in sorted(self.groups):
            group = self.groups[name]
            dist.all_reduce(self.gradients[name], group=group)  # BUG


rank = init()
groups = make_groups(rank)
if rank == 3 and not TWIN:  # its file of names has two lines in each other's place
    groups = {"data": groups["experts"], "experts": groups["data"]}
engine = Engine(groups)
for _ in range(3):
    engine.reduce_gradients()
dist.destroy_process_group()
