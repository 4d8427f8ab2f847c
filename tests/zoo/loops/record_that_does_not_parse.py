"""One of two ranks meets a record that does not parse, goes on with the next, and ends too early.

ranks: 2
expect: op_mismatch
suspects: none
status: diverged
cause: rank 0; rank 1; BUG; EXCEPT; left out
fix: EXCEPT; all ranks
never: there: the loop ran longer; fewer batches
"""

import json

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
records = ['{"tokens": 5}'] * 9
if rank == 0 and not TWIN:
    records[4] = '{"tokens": '
total = torch.zeros(1)
for text in records:
    try:
        count = torch.tensor([float(json.loads(text)["tokens"])])
        dist.all_reduce(count)  # BUG
    except json.JSONDecodeError:  # EXCEPT
        continue
    total += count
dist.barrier()
