"""On rank 2 the thread that gathers the metrics ends by an exception; its training goes on.

ranks: 3
expect: missing_call
suspects: 2
status: hung
cause: rank 2; BUG; ValueError; thread; had ended
fix: ended the thread; exception
never: rank 2 finished; loop ended; longer timeout; ranks 0-1 left
"""

import queue
import threading

import torch
import torch.distributed as dist
from torch import Tensor

from tests.zoo.common import TWIN, init

EVERY = 2


class Metrics:
    """Taken out of the way of training: a thread of its own, a process group of its own."""

    def __init__(self) -> None:
        self.group = dist.new_group()
        self.jobs = queue.Queue[Tensor]()
        self.total = torch.zeros(1)
        threading.Thread(target=self.work, daemon=True).start()

    def add(self, losses: Tensor) -> None:
        if not losses.numel() and not TWIN:
            raise ValueError("no valid examples in this batch")  # BUG
        self.total += losses.sum()

    def work(self) -> None:
        count = 0
        while True:
            self.add(self.jobs.get())
            count += 1
            if count % EVERY == 0:
                dist.all_reduce(self.total, group=self.group)
            self.jobs.task_done()


def train(rank: int) -> None:
    metrics, weight = Metrics(), torch.zeros(2)
    for step in range(100):
        grad = torch.full((2,), float(rank + step))
        dist.all_reduce(grad)
        weight -= 0.1 * grad
        metrics.jobs.put(torch.ones(0 if (rank, step) == (2, 4) else 3))
    metrics.jobs.join()
    dist.barrier()


train(init())
dist.destroy_process_group()
