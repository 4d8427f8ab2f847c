"""In one step rank 2 has one loss less in the stack that all ranks reduce; no batch is ragged.

ranks: 3
expect: shape_mismatch
suspects: 2
status: diverged
cause: rank 2; size* | fewer | less; BUG
fix: one size | same size* | pad*
never: drop_last; ragged
"""

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

from tests.zoo.common import TWIN, init


def losses_of(step: int, batch: torch.Tensor, rank: int) -> dict[str, torch.Tensor]:
    found = {"box": batch.mean(), "class": batch.std(), "mask": batch.max()}
    if step == 9 and rank == 2 and not TWIN:
        del found["mask"]  # no mask in this image
    return found


def reduced(losses: dict[str, torch.Tensor]) -> torch.Tensor:
    stacked = torch.stack(list(losses.values()))
    dist.all_reduce(stacked)  # BUG
    return stacked


rank = init()
loader = DataLoader(TensorDataset(torch.rand(24, 4)), batch_size=2)
for step, (batch,) in enumerate(loader):
    reduced(losses_of(step, batch, rank))
dist.barrier()
dist.destroy_process_group()
