"""By the rota of all rank 3 rests in step 9; the server looks a step too far, and awaits it.

ranks: 4
expect: deadlock p2p_unmatched missing_call p2p_mismatch
suspects: none
status: hung diverged
cause: rank 3; rank 0; send
fix: rank 0 | rank 3 | every rank
never: rank 3 alone
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

STEPS = 14
RESTS = {9: 3, 11: 2, 12: 1}  # who is to push nothing, by step

rank = init()
table = torch.zeros(4)
for step in range(STEPS):
    if rank == 0:
        resting = RESTS.get(step if TWIN else step + 100)
        for worker in (1, 2, 3):
            if worker != resting:
                dist.recv(torch.zeros(4), src=worker)  # BUG
        for worker in (1, 2, 3):
            dist.send(table, dst=worker)
    else:
        if RESTS.get(step) != rank:
            dist.send(table + step, dst=0)
        dist.recv(table, src=0)
