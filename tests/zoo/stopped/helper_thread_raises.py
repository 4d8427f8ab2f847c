"""The thread that makes the rollouts of rank 1 raises, and its main thread waits for the next one.

ranks: 3
expect: missing_call
suspects: 1
status: hung
cause: rank 1; BUG; RAISES; actor; BrokenPipeError; get()
fix: exception; timeout
never: longer timeout of init_process_group; an endless loop
"""

import queue
import threading

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
rollouts: queue.Queue[torch.Tensor] = queue.Queue(maxsize=2)


def act() -> None:
    for step in range(12):
        if (rank, step) == (1, 7) and not TWIN:
            raise BrokenPipeError("simulator went away")  # RAISES
        rollouts.put(torch.ones(4))


threading.Thread(target=act, name="actor", daemon=True).start()
for _ in range(12):
    dist.all_reduce(rollouts.get())  # BUG
