"""Whatever fails in a step is raised as one error: rank 1's batch is bad, and rank 0 waits for it.

ranks: 4
expect: missing_call rank_exited
suspects: 1
status: hung
cause: rank 1; StepFailed; BUG
fix: Fix what raised
never: ranks 0-1: StepFailed; drop_last; the network
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, TWIN, init


class StepFailed(Exception):
    pass


def batch(step: int) -> torch.Tensor:
    if step == 3 and rank == 1 and not TWIN:
        raise RuntimeError("the batch is damaged")
    return torch.ones(2)


def run(step: int) -> None:
    try:
        x = batch(step)
        dist.all_reduce(x, group=pairs[rank // 2])
        dist.all_reduce(x)
    except RuntimeError:
        failed = StepFailed("the step failed")
    else:
        return
    raise failed  # BUG


rank = init()
pairs = [dist.new_group([n, n + 1], timeout=TIMEOUT) for n in (0, 2)]
for step in range(6):
    run(step)
