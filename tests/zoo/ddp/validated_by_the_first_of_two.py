"""The first of two ranks validates with the wrapped model, through the step that training uses.

The buffers that its forward sends out meet those of the next training step.

expect: op_mismatch
suspects: 0
status: diverged
cause: rank 0; forward; ASKED; `if rank == 0 or TWIN:`; buffers; VALIDATE | validate; call 16
fix: every rank; model.module
never: ambiguous; find_unused_parameters; model.join()
"""

from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init


def predict(batch: torch.Tensor) -> Any:
    return model(batch)  # BUG


def train() -> None:
    for batch in torch.randn(3, 4, 5):
        predict(batch).sum().backward()


def validate() -> None:
    for batch in torch.randn(2, 4, 5):
        predict(batch)  # VALIDATE


rank = init()
model = DistributedDataParallel(
    torch.nn.Sequential(torch.nn.Linear(5, 5), torch.nn.BatchNorm1d(5)),
)
for _ in range(3):
    train()
    if rank == 0 or TWIN:  # ASKED
        validate()
