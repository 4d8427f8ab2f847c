"""Rank 1 has spent its budget in the second epoch and goes home; batches were left to it.

ranks: 3
expect: missing_call
suspects: 1
status: hung
cause: rank 1; BUG; 2 of the 4 batches; not the end of the inputs; HANDLER
fix: error flag | all ranks learn
never: uneven inputs; drop_last; no input left
"""

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from tests.zoo.common import TWIN, init


class SpentError(Exception):
    """Nothing is left to pay the next step with."""


def pay(step: int) -> None:
    if (rank, step) == (1, 6) and not TWIN:
        raise SpentError


def train() -> None:
    step = 0
    for _ in range(3):
        for (batch,) in loader:
            model(batch).sum().backward()  # BUG
            step += 1
            pay(step)


rank = init()
loader = DataLoader(TensorDataset(torch.ones(8, 5)), batch_size=2)
model = DistributedDataParallel(torch.nn.Linear(5, 5))
try:
    train()
except SpentError:  # HANDLER
    print("spent")
