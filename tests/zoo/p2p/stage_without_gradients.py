"""The middle stage of a pipeline has nothing to clip from step 4 on, and returns before the norm.

It goes on to its next step, by the line that it came from before.

ranks: 3
expect: deadlock
suspects: 1
status: hung
cause: rank 1; BUG; EARLY
fix: EARLY
never: batch_isend_irecv; turn one round
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
last = dist.get_world_size() - 1


def clip(gradients: list[torch.Tensor]) -> None:
    if not gradients and not TWIN:  # EARLY
        return
    norm = torch.zeros(()) + sum(one.sum() for one in gradients)
    dist.all_reduce(norm)  # BUG


class Stage:
    def run(self) -> None:
        value = torch.ones(4)
        if rank > 0:
            dist.recv(value, rank - 1)
        if rank < last:
            dist.send(value, rank + 1)
            dist.recv(value, rank + 1)
        if rank > 0:
            dist.send(value, rank - 1)


stage = Stage()
for step in range(8):
    stage.run()
    clip([torch.ones(2)] if step < 4 or rank != 1 else [])
