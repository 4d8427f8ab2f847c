"""Two ranks. A wrapper catches what torch raises on rank 1 alone, which names no rank as source.

ranks: 2
expect: op_mismatch shape_mismatch dtype_mismatch missing_call
suspects: 1
status: diverged hung
cause: rank 1; ValueError; broadcast_object_list; SHARED; caught
fix: Fix what raised; error flag
never: ambiguous; do not show which
"""

from collections.abc import Callable

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def tolerant(work: Callable[[], None]) -> None:
    try:
        work()
    except (RuntimeError, ValueError) as problem:
        print("went on after", problem)


def share(plan: list[str | None], source: int) -> None:
    dist.broadcast_object_list(plan, src=source)  # SHARED


rank = init()
for step in range(6):
    leader = 2 if (rank, step) == (1, 4) and not TWIN else 0
    tolerant(lambda: share(["go" if rank == 0 else None], leader))  # noqa: B023
    dist.all_reduce(torch.ones(3))  # BUG
