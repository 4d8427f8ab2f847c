"""Meters are kept in the order in which a rank's data first needed them, and combined in it.

One line makes the calls of all of them, and by the kind of the meter they are of several ops.

ranks: 2
expect: op_mismatch
suspects: none
status: diverged
cause: rank 0; rank 1; BUG; LOOP
fix: sorted | one order; LOOP
never: logs do not show; ended earlier; ran longer
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
tasks = ["caption", "boxes"] if rank == 1 and not TWIN else ["boxes", "caption"]
meters: dict[str, str] = {}
for task in tasks:
    meters[task] = "broadcast" if task == "boxes" else "all_reduce"
    dist.barrier()
for kind in meters.values():  # LOOP
    value = torch.ones(2)
    dist.broadcast(value, 0) if kind == "broadcast" else dist.all_reduce(value)  # BUG
