"""One collective for each key of a set, by a function that asks which key it is.

ranks: 2
expect: op_mismatch
suspects: none
status: diverged
cause: KIND; ORDER; set
fix: one order | sorted
never: logs do not show; loop ended; only rank
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
ENERGY, FORCES, STRESS = 0x01, 0x12, 0x1A  # of which two have one place in a table of eight
ordered = sorted if TWIN else list


def consolidate(key: int, value: torch.Tensor) -> None:
    if key == FORCES:  # KIND
        dist.all_to_all_single(torch.empty_like(value), value)  # BUG
        return
    dist.all_reduce(value)


def step(mine: int, other: int) -> None:
    needed = {ENERGY, mine}
    needed |= {other}
    for key in ordered(needed):  # ORDER
        consolidate(key, torch.ones(6, 3))


step(FORCES, FORCES)
step(STRESS, STRESS)
step(*((FORCES, STRESS) if rank == 0 else (STRESS, FORCES)))
