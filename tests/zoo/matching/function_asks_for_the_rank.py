"""A function of the script says whether this process writes, and only the last one does.

ranks: 2
expect: op_mismatch
suspects: 1
status: diverged
cause: rank 1; BUG; asks for the rank; /return dist.get_rank/
fix: every rank
never: ambiguous; let all ranks decide together
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def is_writer() -> bool:
    """Whether samples are kept here."""
    return dist.get_rank() == 1


init()
for step in range(6):
    dist.all_reduce(torch.ones(4))
    if step == 3 and (is_writer() or TWIN):
        dist.all_gather_object([None, None], step)  # BUG
