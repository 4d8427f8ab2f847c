"""A function that is decorated to run on the first rank alone reduces what it logs.

ranks: 2
expect: op_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; `if dist.get_rank() == 0 or TWIN:`; depends on the rank
fix: BUG; decorated_for_the_first_rank.py:26 | DECORATOR; every rank
never: ambiguous; let all ranks decide together
"""

import functools
from collections.abc import Callable

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()


def rank_zero_only(function: Callable[[torch.Tensor], None]) -> Callable[[torch.Tensor], None]:
    @functools.wraps(function)
    def wrapped(value: torch.Tensor) -> None:
        if dist.get_rank() == 0 or TWIN:
            function(value)

    return wrapped


@rank_zero_only  # DECORATOR
def log(value: torch.Tensor) -> None:
    dist.all_reduce(value)  # BUG


for step in range(9):
    dist.broadcast(torch.ones(4), src=0)
    if step % 3 == 2:
        log(torch.ones(1))
