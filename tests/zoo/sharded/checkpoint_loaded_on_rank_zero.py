"""A distributed checkpoint is saved by all ranks, and loaded again by rank 0 alone.

ranks: 3
expect: op_mismatch role_mismatch shape_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; checkpoint plan; only rank 0; rank == 0
fix: load(); every rank; no_dist=True
never: ragged; drop_last; left the loop; loop ended; find_unused_parameters; logs do not show
"""

import tempfile

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from tests.zoo.common import TWIN, init

rank = init()
state = {"weights": torch.ones(4)}
with tempfile.TemporaryDirectory() as own:
    shared: list[str] = [own]
    dist.broadcast_object_list(shared, src=0)
    save(state, checkpoint_id=shared[0])
    dist.barrier()
    if rank == 0 or TWIN:
        load(state, checkpoint_id=shared[0])  # BUG
    for _ in range(3):
        dist.all_reduce(torch.ones(5))
