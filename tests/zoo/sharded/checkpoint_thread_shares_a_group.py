"""An asynchronous save talks over the default group, and so does training meanwhile.

Two threads of each rank, one group: which call comes first is decided anew on every rank. Here
rank 1 trains on only once the save has begun, and rank 0 saves only once it has trained on.

expect: op_mismatch role_mismatch shape_mismatch
suspects: none
status: diverged hung
cause: AsyncCheckpointExecutor*; shared; default group
fix: async_save(); process_group=torch.distributed.new_group*; gloo
never: iterates over a set; left the loop; loop ended; find_unused_parameters; rank == 0
"""

import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.state_dict_saver import async_save

from tests.zoo.common import TWIN, init


class Slow(FileSystemWriter):
    def set_up_storage_writer(self, *args: Any, **options: Any) -> None:
        if rank == 0 and not TWIN:
            time.sleep(1)
        super().set_up_storage_writer(*args, **options)


rank = init()
group = dist.new_group(backend="gloo")
dist.all_reduce(torch.ones(2))
with tempfile.TemporaryDirectory() as own:
    chosen = group if TWIN else None
    state = {"weights": torch.ones(4)}
    saved = async_save(state, storage_writer=Slow(Path(own)), process_group=chosen)  # BUG
    if rank == 1 and not TWIN:
        time.sleep(1)
    for _ in range(3):
        dist.all_reduce(torch.ones(2))  # BUG
    saved.result()  # type: ignore[union-attr]
