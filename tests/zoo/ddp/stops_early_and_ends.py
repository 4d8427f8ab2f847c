"""Early stopping by each rank's own validation loss: rank 0 stops after three epochs, and ends.

ranks: 3
expect: missing_call
suspects: 0
status: hung
cause: rank 0; BUG; STOPS; 12 forward passes; led rank 0 out of it
fix: STOPS; decide together; if the loop itself ended earlier
never: uneven inputs; no input left; join()
"""

import torch
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init


def train(model: torch.nn.Module) -> None:
    for _ in range(4):
        model(torch.ones(2, 4)).sum().backward()  # BUG


def fit(model: torch.nn.Module, losses: list[float]) -> None:
    best = float("inf")
    for loss in losses:
        train(model)
        if loss >= best:  # STOPS
            break
        best = loss


rank = init()
fit(
    DistributedDataParallel(torch.nn.Linear(4, 1)),
    [3, 2, 2.5, 1, 0.5] if rank == 0 and not TWIN else [3, 2, 1.5, 1, 0.5],
)
