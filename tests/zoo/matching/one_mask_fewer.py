"""A metric gathers each mask that it holds, then each score: a rank that holds one mask less.

It comes to its scores where the others are still at a mask. They are of another dtype, and were
made as they should be.

ranks: 3
expect: dtype_mismatch
suspects: 1
status: diverged
cause: rank 1; all_gather; BUG; before; float32[5]; int64[3, 3]
fix: number; pad | torch.cat; dict
never: torch.tensor(x; made of Python; autocast; drop_last
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

held: dict[str, list[torch.Tensor]] = {}


def gathered(value: torch.Tensor) -> list[torch.Tensor]:
    parts = [torch.empty_like(value) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, value)
    return parts


def synced() -> int:
    count = 0
    for values in held.values():
        for n in range(len(values)):
            count += len(gathered(values[n]))  # BUG
    return count


rank = init()
for epoch in range(4):
    images = 3 if epoch == 3 and rank == 1 and not TWIN else 2 + epoch
    held["masks"] = [torch.zeros(3, 3, dtype=torch.int64) for _ in range(images)]
    held["scores"] = [torch.ones(5) for _ in range(images)]
    print(epoch, synced(), flush=True)
