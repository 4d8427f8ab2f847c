"""A 2 x 2 mesh: the second rank of each pair skips the scale's broadcast in step 3.

Rank 1 finds out at its next reduction. Rank 3 has no slack and raises before: it is the same error,
which came to light at another moment.

ranks: 4
expect: op_mismatch missing_call shape_mismatch
suspects: 1 3
status: diverged hung
cause: rank 1; rank 3; SKIPS; broadcast; BUG
fix: every rank | all ranks | decide together
never: /^fix what/; ambiguous; do not show which; drop_last
"""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from tests.zoo.common import TWIN, init


class Scaler:
    """Keeps the scale of a tensor-parallel pair, which its first rank sets."""

    def __init__(self, group: dist.ProcessGroup, slack: float) -> None:
        self.group, self.slack = group, slack
        self.scale, self.age = torch.ones(1), 0.0

    def update(self, overflows: int) -> None:
        if overflows == 0:  # SKIPS
            self.age += 1.0
            return
        dist.broadcast(self.scale, group=self.group, group_src=0)  # BUG
        self.age = 0.0

    def check(self) -> None:
        if self.age > self.slack:
            raise FloatingPointError("the scale is stale")


def main() -> None:
    rank = init()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    tp, dp = mesh.get_group("tp"), mesh.get_group("dp")
    scaler = Scaler(tp, slack=0.5 if rank == 3 else 3.0)
    for step in range(6):
        overflows = 0 if step == 3 and rank % 2 and not TWIN else 1
        scaler.update(overflows)
        scaler.check()
        activation = torch.ones(4) * scaler.scale
        dist.all_reduce(activation, group=tp)
        dist.all_reduce(torch.ones(8), group=dp)
    dist.barrier()
    dist.destroy_process_group()


main()
