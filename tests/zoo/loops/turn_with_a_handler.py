"""Each turn of a loop may fail and be left out; rank 1 has one item more, and no try begins anew.

ranks: 2
expect: op_mismatch
suspects: none
status: diverged
cause: BUG; LOOP; fewer iterations on rank 0; items = [1, 2, 3] if rank == 0
fix: same number of iterations; number of items of
never: a try failed; tried again
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()


def share(item: int) -> None:
    dist.all_reduce(torch.ones(4) * item)


items = [1, 2, 3] if rank == 0 and not TWIN else [1, 2, 3, 4]
for item in items:  # LOOP
    try:
        share(item)
    except ValueError:
        print("left out")
dist.barrier()  # BUG
