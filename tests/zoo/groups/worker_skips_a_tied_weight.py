"""Rank 0 hands its weights on to the workers, one of which takes its head for tied and skips it.

Who sends and who receives run functions of their own: rank 3 is to be held against rank 2.

ranks: 4
expect: op_mismatch
suspects: 3
status: diverged
cause: rank 3; BUG; TIED
fix: all ranks | every rank; TIED
never: logs do not show; ran longer; sorted
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, TWIN, init

NAMES = ("embed", "layer", "head")


def push(weights: dict[str, torch.Tensor], group: dist.ProcessGroup) -> None:
    for weight in weights.values():
        dist.broadcast(weight, src=0, group=group)
    dist.barrier(group=group)


def pull(tied: bool, group: dist.ProcessGroup) -> dict[str, torch.Tensor]:
    weights = {}
    for name in NAMES:
        if name == "head" and tied:  # TIED
            continue
        weight = torch.empty(4)
        dist.broadcast(weight, src=0, group=group)  # BUG
        weights[name] = weight
    dist.barrier(group=group)  # BUG
    return weights


rank = init()
group = dist.new_group([0, 2, 3], timeout=TIMEOUT)
for _ in range(3):
    dist.all_reduce(torch.ones(2))
    if rank == 0:
        push({name: torch.ones(4) for name in NAMES}, group)
    elif rank > 1:
        pull(rank == 3 and not TWIN, group)
