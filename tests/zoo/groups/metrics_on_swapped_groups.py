"""Two groups of the same ranks, one for each metric; rank 1 reduces each in the group of the other.

All calls are in flight before the first is waited for, so nothing hangs: the numbers are mixed up.

ranks: 3
expect: role_mismatch
severity: warning
suspects: 1
status: aligned
cause: rank 1; all_reduce; group*; BUG
fix: same group | same order
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, TWIN, init

rank = init()
of_loss, of_accuracy = dist.new_group(timeout=TIMEOUT), dist.new_group(timeout=TIMEOUT)
if rank == 1 and not TWIN:
    of_loss, of_accuracy = of_accuracy, of_loss
for _ in range(3):
    works = [
        dist.all_reduce(torch.tensor([2.0]), group=of_loss, async_op=True),  # BUG
        dist.all_reduce(torch.tensor([0.5]), group=of_accuracy, async_op=True),  # BUG
    ]
    for work in works:
        assert work is not None
        work.wait()
