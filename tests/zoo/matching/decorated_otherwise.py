"""A function is decorated to run where there is something to log, which only rank 0 has.

ranks: 2
expect: op_mismatch
suspects: none
status: diverged
cause: rank 0; BUG
fix: every rank
never: asks for the rank; only rank 0
"""

import functools
from collections.abc import Callable

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()


def where_given(function: Callable[[torch.Tensor], None]) -> Callable[[torch.Tensor], None]:
    @functools.wraps(function)
    def wrapped(value: torch.Tensor) -> None:
        if value.numel():
            function(value)

    return wrapped


@where_given
def log(value: torch.Tensor) -> None:
    dist.all_reduce(value)  # BUG


for step in range(9):
    dist.broadcast(torch.ones(4), src=0)
    if step % 3 == 2:
        log(torch.ones(1 if rank == 0 or step < 5 or TWIN else 0))
