"""Rank 0 alone starts an asynchronous checkpoint: a thread of its own gathers, the others reduce.

ranks: 3
expect: op_mismatch
suspects: 0
status: diverged
cause: rank 0; async_save | checkpoint; BUG; thread*; only rank 0 | rank 0 alone | rank == 0
fix: every rank | all ranks
never: left the loop; loop ended; find_unused_parameters; logs do not show
"""

import tempfile
from concurrent.futures import Future

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict_saver import async_save

from tests.zoo.common import TIMEOUT, TWIN, init

rank = init()
savers = dist.new_group(timeout=TIMEOUT) if TWIN else None
saving = None
weights = {"w": torch.ones(4)}
with tempfile.TemporaryDirectory() as own:
    shared: list[str] = [own]
    dist.broadcast_object_list(shared, src=0)
    for step in range(6):
        dist.all_reduce(torch.ones(4))
        if step == 2 and (rank == 0 or TWIN):
            saving = async_save(weights, checkpoint_id=shared[0], process_group=savers)  # BUG
    if isinstance(saving, Future):
        saving.result()
    dist.barrier()
