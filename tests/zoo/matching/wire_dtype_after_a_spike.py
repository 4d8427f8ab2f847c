"""A reducer sends half precision, and full precision after a spike; rank 1 alone saw a spike.

ranks: 2
expect: dtype_mismatch
suspects: none
status: diverged
cause: rank 1; BUG; float32; bfloat16; WIDE
fix: dtype
never: Python ints; environment; file
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


class Reducer:
    """Averages gradients in the precision that they need."""

    def __init__(self, limit: float) -> None:
        self.limit, self.left = limit, 0
        self.wire_dtype = torch.bfloat16

    def select(self, flat: torch.Tensor) -> None:
        peak = flat.abs().max().reshape(1)
        if TWIN:
            dist.all_reduce(peak, op=dist.ReduceOp.MAX)
        if float(peak) > self.limit:
            self.left = 3
            self.wire_dtype = torch.float32  # WIDE
        elif self.left > 0:
            self.left -= 1
        else:
            self.wire_dtype = torch.bfloat16

    def reduce(self, flat: torch.Tensor) -> torch.Tensor:
        self.select(flat)
        wire = flat.to(self.wire_dtype)
        dist.all_reduce(wire)  # BUG
        return wire.float() / dist.get_world_size()


rank = init()
reducer = Reducer(limit=8.0)
for step in range(6):
    gradient = torch.full((16,), 1.0 + step)
    if (rank, step) == (1, 3):
        gradient[5] = 20.0
    reducer.reduce(gradient)
dist.destroy_process_group()
