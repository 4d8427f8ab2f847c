"""Rank 2 has fewer pages; all collectives go through the project's own module.

ranks: 3
expect: op_mismatch
suspects: 2
status: diverged
cause: rank 2; BUG; out of the loop; /`for page in pages:`/; ended earlier on rank 2
fix: same length
never: ranks 0-1 are out; once more and; left out one
"""

import torch

from tests.zoo.comm import meet, total
from tests.zoo.common import TWIN, init


def count(pages: list[int]) -> torch.Tensor:
    seen = torch.zeros(1)
    for page in pages:
        seen += total(torch.full((1,), float(page)))  # BUG
    return seen


rank = init()
pages = list(range(7 if rank == 2 and not TWIN else 8))
count(pages)
meet()  # BUG
