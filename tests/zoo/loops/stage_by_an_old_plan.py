"""A plan says what a step calls; from the sixth there is nothing to evaluate, which rank 0 missed.

Five equal rounds stand before it, and no condition: but what a table calls was chosen elsewhere.

ranks: 2
expect: op_mismatch shape_mismatch
suspects: none
status: diverged
cause: rank 0; rank 1; BUG; STAGES[plan[step]]; evaluate; plan = ["evaluate"]
fix: stage_by_an_old_plan.py:34; decide together; which function; every rank
never: drop_last
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def evaluate(x: torch.Tensor) -> None:
    dist.broadcast(x, src=0)  # BUG


def nothing(x: torch.Tensor) -> None:
    x.zero_()


STAGES = {"evaluate": evaluate, "nothing": nothing}

rank, x = init(), torch.ones(2)
plan = ["evaluate"] * (5 if TWIN or rank == 1 else 7) + ["nothing"] * 2
for step in range(7):
    dist.barrier()
    STAGES[plan[step]](x)
    dist.all_reduce(x)
