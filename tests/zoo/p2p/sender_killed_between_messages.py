"""Rank 1 passes on what it receives, and is killed between a receive and its send.

ranks: 3
expect: p2p_unmatched missing_call
suspects: 1
status: hung
cause: rank 1; died | killed; BUG
fix: exit code
"""

import os
import signal

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
for step in range(6):
    if rank == 0:
        dist.send(torch.ones(4), 1)
    elif rank == 1:
        value = torch.empty(4)
        dist.recv(value, 0)
        if step == 3 and not TWIN:
            os.kill(os.getpid(), signal.SIGKILL)
        dist.send(value, 2)
    else:
        dist.recv(torch.empty(4), 1)  # BUG
