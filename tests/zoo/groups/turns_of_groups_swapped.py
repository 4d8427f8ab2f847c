"""One line reduces gradients by group: all ranks, then the pair. Rank 2 turns it round once.

Its dict of groups is filled by the gradients that it has, in the order in which they come.

ranks: 4
expect: deadlock
suspects: 2
status: hung
cause: rank 2; BUG; order; default group; turn* | goes through the groups
fix: one order | same order
never: pass the same group; rank 0 left; rank 3 left; network
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, TWIN, init

rank = init()
pairs = [dist.new_group(ranks, timeout=TIMEOUT) for ranks in ([0, 1], [2, 3])]
GROUPS = {"shared": dist.group.WORLD, "local": pairs[rank // 2]}


def reduce(gradients: dict[str, torch.Tensor]) -> None:
    for name in sorted(gradients, reverse=True) if TWIN else gradients:
        dist.all_reduce(gradients[name], group=GROUPS[name])  # BUG


for step in range(8):
    found = {"shared": torch.ones(8), "local": torch.ones(3)}
    if (rank, step) == (2, 5):
        found = {"local": torch.ones(3), "shared": torch.ones(8)}
    reduce(found)
