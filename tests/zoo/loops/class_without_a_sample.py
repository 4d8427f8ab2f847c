"""Of one class rank 1 has no sample, so that what it collects has a shape of another length.

All are at one line: nobody is in the loop over the batches any more.

ranks: 2
expect: shape_mismatch
suspects: none
status: diverged
cause: rank 1; 0 batches; BUG; one line | All came to
fix: one shape; every rank
never: still in it; left the loop; set
"""

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

from tests.zoo.common import TWIN, init


def scores(rows: int) -> torch.Tensor:
    found = [batch for (batch,) in DataLoader(TensorDataset(torch.ones(rows, 3)), batch_size=2)]
    return torch.cat(found) if found else torch.empty(0)


rank = init()
for kind in range(4):
    own = scores(0 if (rank, kind) == (1, 3) and not TWIN else 4)
    shape = torch.tensor(own.shape)
    shapes = [torch.empty_like(shape) for _ in range(dist.get_world_size())]
    dist.all_gather(shapes, shape)  # BUG
