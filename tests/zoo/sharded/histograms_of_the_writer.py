"""Only the writer, the first of two ranks, asks for the whole weights.

It knows that it is the writer by an attribute that the constructor set.

expect: op_mismatch
suspects: 0
status: diverged
cause: rank 0; full_tensor; BUG; ASKED; self.is_writer
fix: full_tensor() on every rank
never: ambiguous; drop_last; find_unused_parameters
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from tests.zoo.common import TWIN, init


class Summary:
    def __init__(self) -> None:
        self.is_writer = dist.get_rank() == 0
        self.written: list[torch.Tensor] = []

    def add(self, model: nn.Module) -> None:
        if self.is_writer or TWIN:  # ASKED
            for weight in model.parameters():
                assert isinstance(weight, DTensor)
                self.written.append(weight.full_tensor().detach())  # BUG


init()
model = nn.Linear(8, 4)
fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
summary = Summary()
for epoch in range(3):
    loss = model(torch.randn(3, 8)).square().mean()
    loss.backward()
    if epoch == 1:
        summary.add(model)
    mean = loss.detach()
    dist.all_reduce(mean)
