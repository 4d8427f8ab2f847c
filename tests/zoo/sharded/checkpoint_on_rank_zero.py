"""Rank 0 alone saves a distributed checkpoint; the others go on training.

ranks: 3
expect: op_mismatch shape_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; checkpoint | save*; only rank 0 | rank 0 alone | rank == 0 | never
fix: every rank; torch.distributed.checkpoint; no_dist=True
never: ragged; drop_last; loop ended; left the loop; logs do not show; find_unused_parameters
"""

import tempfile

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict_saver import save
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
model = DistributedDataParallel(torch.nn.Linear(2, 2))
with tempfile.TemporaryDirectory() as own:
    shared: list[str] = [own]
    dist.broadcast_object_list(shared, src=0)
    for step in range(5):
        model(torch.ones(1, 2)).sum().backward()
        if step == 2 and (rank == 0 or TWIN):
            save(model.module.state_dict(), checkpoint_id=shared[0])  # BUG
    dist.barrier()
