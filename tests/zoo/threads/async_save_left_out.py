"""Asynchronous checkpoints in a group of their own; rank 2 leaves one out and waits at the end.

ranks: 3
expect: missing_call deadlock op_mismatch
suspects: 2
status: hung diverged
cause: rank 2; async_save | checkpoint; BUG
fix: every rank | all ranks
never: rank 0 is busy; ranks 0-1 are busy; /rank [01]: busy/; each is right by itself
"""

import tempfile
from concurrent.futures import Future

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict_saver import async_save

from tests.zoo.common import TIMEOUT, TWIN, init

rank = init()
savers = dist.new_group(timeout=TIMEOUT)
weights = {"w": torch.ones(4)}
with tempfile.TemporaryDirectory() as own:
    shared: list[str] = [own]
    dist.broadcast_object_list(shared, src=0)
    for step in range(6):
        dist.all_reduce(torch.ones(4))
        if step == 2 and (rank != 2 or TWIN):
            saving = async_save(weights, checkpoint_id=shared[0], process_group=savers)  # BUG
            assert isinstance(saving, Future)
            saving.result()
    dist.barrier()
