"""A parameter that took no part in the fifth step has no gradient on rank 1, which skips its turn.

ranks: 3
expect: shape_mismatch
suspects: 1
status: diverged
cause: rank 1; BUG; TURNS; NONE; may have led rank 1 past a turn | skipped one
fix: NONE; decide together; with zeros
never: find_unused_parameters; ragged; drop_last
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def average(parameters: list[torch.nn.Parameter]) -> None:
    for one in parameters:  # TURNS
        if one.grad is None:  # NONE
            continue
        dist.all_reduce(one.grad)  # BUG


rank = init()
parameters = [torch.nn.Parameter(torch.ones(n)) for n in (3, 5, 7)]
for step in range(7):
    for n, one in enumerate(parameters):
        has_none = (rank, step, n) == (1, 4, 1) and not TWIN
        one.grad = None if has_none else torch.ones_like(one)
    average(parameters)
dist.destroy_process_group()
