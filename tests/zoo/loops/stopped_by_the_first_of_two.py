"""Rank 0 alone has the patience counted, and leaves the epochs; rank 1 goes on to train.

ranks: 2
expect: op_mismatch role_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; STOP; asks for the rank
fix: every rank
never: drop_last; ambiguous; 18 times through
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

EPOCHS, PATIENCE = 12, 99 if TWIN else 2


class Patience:
    """Counts the epochs since the loss was best."""

    def __init__(self) -> None:
        self.best, self.worse = float("inf"), 0

    def is_over(self, loss: float) -> bool:
        self.worse = 0 if loss < self.best else self.worse + 1
        self.best = min(self.best, loss)
        return self.worse >= PATIENCE


def train_epoch(weight: torch.Tensor, epoch: int) -> float:
    for _ in range(3):
        gradient = weight * 0.1 if epoch < 4 else -weight * 0.1
        dist.all_reduce(gradient)  # BUG
        weight -= gradient / dist.get_world_size()
    return float(weight.square().mean())


def fit(rank: int) -> None:
    weight, patience = torch.ones(4), Patience()
    for epoch in range(EPOCHS):
        loss = train_epoch(weight, epoch)
        if rank == 0 and patience.is_over(loss):  # STOP
            break
    dist.barrier()


fit(init())
dist.destroy_process_group()
