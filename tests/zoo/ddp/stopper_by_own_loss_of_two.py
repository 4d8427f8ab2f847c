"""Early stopping by the loss of each rank's own held-out shard: rank 1 of two stops and leaves.

The rank is an argument of validation(), which only picks the shard: no branch asks for it.

ranks: 2
expect: op_mismatch role_mismatch missing_call
suspects: none
status: diverged hung
cause: rank 1; STOPS; break; own data | local | own held-out | own loss; BUG
fix: STOPS; decide together | all_reduce | broadcast*
never: depends on the rank; asks for the rank; /\\bmove \\w+/; /call (DDP )?backward/;
    every rank, or on none; find_unused_parameters; drop_last; join(); same number of iterations
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

NOISE = {0: [0.9, 0.8, 0.7, 0.6, 0.5, 0.4], 1: [0.9, 0.8, 0.85, 0.95, 0.9, 0.9]}
"""How far the held-out shard of a rank is from what the model says, by epoch."""


class EarlyStopper:
    def __init__(self, patience: int) -> None:
        self.patience, self.best, self.worse = patience, float("inf"), 0

    def step(self, loss: float) -> bool:
        self.worse = 0 if loss < self.best else self.worse + 1
        self.best = min(self.best, loss)
        return self.worse >= self.patience


def train_epoch(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for batch in torch.ones(3, 2, 4):
        optimizer.zero_grad()
        model(batch).square().mean().backward()  # BUG
        optimizer.step()


@torch.no_grad()
def validation(model: DistributedDataParallel, rank: int, epoch: int) -> float:
    said = model.module(torch.ones(2, 4))
    loss = nn.functional.mse_loss(said, said + NOISE[rank][epoch])
    if TWIN:
        dist.all_reduce(loss)
        loss /= dist.get_world_size()
    return float(loss)


def fit(rank: int) -> None:
    model = DistributedDataParallel(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    stopper = EarlyStopper(patience=2)
    for epoch in range(6):
        train_epoch(model, optimizer)
        val_loss = validation(model, rank, epoch)
        if stopper.step(val_loss):  # STOPS
            break
    dist.barrier()


fit(init())
dist.destroy_process_group()
