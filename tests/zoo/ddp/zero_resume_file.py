"""The shards of a ZeroRedundancyOptimizer are gathered inside what the main process alone saves.

ranks: 3
expect: op_mismatch missing_call role_mismatch shape_mismatch root_mismatch
suspects: 0
status: diverged hung
cause: rank 0; BUG | consolidate_state_dict | SAVE; only | alone | extra | main process | others
fix: every rank | all ranks; consolidate* | BUG | before the condition | collective* | broadcast*
never: ragged; drop_last; join; unused parameter*
"""

import io

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()


class Checkpointer:
    def __init__(self) -> None:
        self.saved: list[bytes] = []

    def collect(self) -> None:
        optimizer.consolidate_state_dict(to=0)  # BUG

    def save(self) -> None:
        if TWIN:
            self.collect()
        if dist.get_rank() != 0:
            return
        if not TWIN:
            self.collect()  # SAVE
        file = io.BytesIO()
        torch.save((model.module.state_dict(), optimizer.state_dict()), file)
        self.saved.append(file.getvalue())


model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2)))
optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=1e-2)
checkpointer = Checkpointer()
for epoch in range(3):
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()
    if epoch % 2:  # not after the first epoch
        checkpointer.save()
