"""Rank 1 goes through its documents in another order: one is cut into parts of another size.

ranks: 3
expect: split_mismatch shape_mismatch
suspects: 1
status: diverged
cause: rank 1; BUG; equal parts
fix: same order; pad*
never: join(); drop_last; find_unused_parameters
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

LENGTHS = {"chat": 6, "code": 12, "math": 18, "prose": 24}


def documents(rank: int) -> list[str]:
    odd = rank == 1 and not TWIN
    return ["chat", "code", "prose", "math"] if odd else ["chat", "code", "math", "prose"]


def exchanged(sequence: torch.Tensor) -> torch.Tensor:
    heads = torch.empty_like(sequence)
    dist.all_to_all_single(heads, sequence)  # BUG
    return heads


rank = init()
for name in documents(rank):
    heads = exchanged(torch.ones(LENGTHS[name]))
    dist.all_reduce(heads.mean())
dist.destroy_process_group()
