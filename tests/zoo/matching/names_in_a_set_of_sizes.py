"""Counts per class are reduced in the order of a set: the first reduction already fails.

One row is all there is: three sizes, one line, no batch.

ranks: 3
expect: shape_mismatch
suspects: none
status: diverged
cause: BUG; float32[2]; float32[3]; float32[5]
fix: same order | sort* | order*
never: ragged; drop_last
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


class Name(str):
    """Hashes as strings do under another PYTHONHASHSEED in each process."""

    def __hash__(self) -> int:
        return (ord(self[0]) - ord("a") + rank) % 3


rank = init()
counts = {"animals": 2, "birds": 3, "cars": 5}
names = {Name(name) for name in counts}
for name in sorted(names) if TWIN else names:
    dist.all_reduce(torch.ones(counts[str(name)]))  # BUG
