"""Rank 1 alone sees a plateau, by the loss of its own shard, and fetches the best weights again.

The other rank has begun the next epoch by then, in the loop over the batches: that loop is none
that rank 1 may have been through already.

ranks: 2
expect: op_mismatch
suspects: 1
status: diverged
cause: rank 1; BUG; PLATEAU
fix: every rank | all ranks
never: ended earlier; same length; join(); ambiguous
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def train(model: torch.nn.Module, rows: torch.Tensor) -> torch.Tensor:
    loss = torch.zeros(1)
    for row in rows:
        loss = model(row).square().mean()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
    return loss.detach()


def rewind(model: torch.nn.Module) -> None:
    for parameter in model.parameters():
        dist.broadcast(parameter.data, src=0)  # BUG


class Plateau:
    """Whether a loss has not become better for some epochs."""

    def __init__(self, patience: int) -> None:
        self.patience, self.best, self.stale = patience, float("inf"), 0

    def step(self, loss: float) -> bool:
        self.stale = self.stale + 1 if loss >= self.best else 0
        self.best = min(self.best, loss)
        return self.stale >= self.patience


rank = init()
model = torch.nn.Linear(4, 1)
plateau = Plateau(patience=2)
losses = [5.0, 4.0, 3.0, *([3.0, 3.0] if rank == 1 and not TWIN else [2.0, 1.5]), 1.0, 0.5]
for own in losses:
    seen = train(model, torch.ones(3, 2, 4))
    dist.all_reduce(seen)
    if plateau.step(own):  # PLATEAU
        rewind(model)  # BUG
