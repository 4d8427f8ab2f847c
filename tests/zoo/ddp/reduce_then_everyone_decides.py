"""The accuracy is reduced to rank 0, and every rank compares what it holds with the target.

Rank 0 alone has the sum: it stops after the first epoch and shares its history, while the others
begin the second one.

ranks: 3
expect: op_mismatch missing_call role_mismatch
suspects: 0
status: diverged
cause: rank 0; reduce | stop* | left | break | return* | ended | loop | decid* | gradient* |
  backward; broadcast* | BUG
fix: all_reduce | broadcast | every rank | all ranks
never: drop_last; ragged; different dtype
"""

from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
world = dist.get_world_size()
TARGET = 0.85


class Trainer:
    def __init__(self) -> None:
        self.model = DistributedDataParallel(torch.nn.Linear(6, 2))
        self.history: list[float] = []

    def fit_epoch(self) -> None:
        for _ in range(3):
            self.model(torch.randn(8, 6)).square().mean().backward()  # BUG

    def validate(self, epoch: int) -> float:
        accuracy = torch.tensor([0.89 + 0.01 * epoch])  # of this rank's third
        if TWIN:
            dist.all_reduce(accuracy)
        else:
            dist.reduce(accuracy, dst=0)  # BUG
        return accuracy.item() / world

    def run(self, epochs: int) -> int:
        for epoch in range(epochs):
            self.fit_epoch()
            self.history.append(self.validate(epoch))
            if self.history[-1] >= TARGET:
                return epoch
        return epochs


trainer = Trainer()
stopped = trainer.run(epochs=3)
box: list[Any] = [trainer.history]
dist.broadcast_object_list(box, src=0)  # BUG
print("stopped at", stopped, box[0], flush=True)
