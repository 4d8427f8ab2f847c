"""A worker pushes no gradient that is nearly zero; the server takes pushes from any of them.

ranks: 4
expect: deadlock p2p_unmatched missing_call
suspects: 2
status: hung crashed
cause: rank 2; BUG | TINY
fix: send* | zeros
never: ranks 0-1 disagree; uneven inputs
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

STEPS, DIM = 6, 5
PUSH, PULL = 1, 2


def serve(workers: int) -> None:
    weights, gradient = torch.zeros(DIM), torch.empty(DIM)
    for _ in range(STEPS):
        for _ in range(workers):
            dist.recv(gradient, tag=PUSH)
            weights -= 0.1 * gradient
        for worker in range(1, workers + 1):
            dist.send(weights, dst=worker, tag=PULL)


class Worker:
    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.weights = torch.zeros(DIM)

    def gradient(self, step: int) -> torch.Tensor:
        scale = 0.0 if (self.rank, step) == (2, 4) and not TWIN else 1.0
        return scale * torch.ones(DIM)

    def work(self) -> None:
        for step in range(STEPS):
            gradient = self.gradient(step)
            if gradient.norm() < 1e-6:  # TINY
                continue
            dist.send(gradient, dst=0, tag=PUSH)  # BUG
            dist.recv(self.weights, src=0, tag=PULL)


rank = init()
serve(3) if rank == 0 else Worker(rank).work()
dist.barrier()
