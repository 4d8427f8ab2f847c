"""Rank 1 got nothing from a try that went well, leaves the round out, and begins the next file.

No try has failed: a loop around leads back to the tries.

ranks: 3
expect: op_mismatch
suspects: 1
status: diverged
cause: rank 1; BUG; left out | did not issue
fix: nothing_behind_a_try.py:34; not rows; decide together; every rank; nothing in `rows`
never: a try failed; tried again; an exception
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()


def fetch(name: str) -> list[int]:
    for _ in range(3):
        try:
            dist.barrier()
            return [] if (name, rank) == ("c", 1) and not TWIN else [1, 2, 3]
        except OSError:
            print("again")
    raise RuntimeError(name)


for name in ("a", "b", "c", "d", "e"):
    rows = fetch(name)
    if not rows:
        continue
    dist.all_reduce(torch.tensor(rows))  # BUG
