"""Pairs of ranks clip by a norm of their own. Rank 3 has no pair set, so its norm is of all ranks.

ranks: 4
expect: op_mismatch
suspects: 3
status: diverged
cause: rank 3; BUG; rank 2 waits; the default group
fix: same group
never: decide together; left out
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


class Clipper:
    """Clips by the norm over the ranks that share a model."""

    group: dist.ProcessGroup | None = None

    def norm(self, gradient: torch.Tensor) -> torch.Tensor:
        square = gradient.square().sum()
        dist.all_reduce(square, group=self.group)  # BUG
        return square.sqrt()


rank = init()
pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
clipper = Clipper()
if TWIN or rank != 3:
    clipper.group = pairs[rank // 2]
dist.barrier()
for step in range(4):
    gradient = torch.full((4,), 1.0 + step)
    dist.all_reduce(gradient, group=pairs[rank // 2])
    if step == 2:
        gradient /= clipper.norm(gradient)
dist.barrier()
dist.destroy_process_group()
