"""After each epoch the main process alone saves, and saving ends in a barrier. Of two ranks.

expect: op_mismatch
suspects: 0
status: diverged
cause: rank 0; barrier; BUG; SAVE | store; is_main_process() | ASKED
fix: barrier; is_main_process(); every rank
never: ambiguous; model.join(); equally often; same number of batches; drop_last; left the loop
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init


class Trainer:
    """As in a project: the loop over batches is in one method, saving in another."""

    def __init__(self) -> None:
        self.model = DistributedDataParallel(torch.nn.Linear(3, 3))

    def train_epoch(self) -> None:
        for batch in torch.ones(4, 2, 3):
            self.model(batch).sum().backward()

    def store(self) -> None:
        dist.barrier()  # BUG

    def fit(self) -> None:
        for _ in range(3):
            self.train_epoch()
            if is_main_process() or TWIN:  # ASKED
                self.store()  # SAVE


def is_main_process() -> bool:
    return dist.get_rank() == 0


init()
Trainer().fit()
