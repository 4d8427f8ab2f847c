"""Rank 0 broadcasts each entry of a state that it alone holds; the others have none to go through.

The condition above is alike on all ranks: it asks for the step.

ranks: 3
expect: op_mismatch
suspects: 0
status: diverged
cause: rank 0; LOOP; BUG; more iterations on rank 0; held if rank == 0
fix: LOOP; every rank
never: logs do not show
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

REFRESH_EVERY = 3


def whole_state(rank: int) -> dict[str, torch.Tensor]:
    held = {"weight": torch.ones(4), "bias": torch.ones(2)}
    return held if rank == 0 or TWIN else {}


def refresh(rank: int) -> None:
    weights = whole_state(rank)
    for name in weights:  # LOOP
        dist.broadcast(weights[name], src=0)  # BUG


rank = init()
for step in range(1, 9):
    dist.all_reduce(torch.ones(3))
    if step % REFRESH_EVERY == 0:
        refresh(rank)
