"""Only rank 0 calls full_tensor() to hand weights to the rollout engine; others are at the barrier.

ranks: 4
expect: deadlock missing_call
suspects: 0
status: hung
cause: /ranks? 0/; BUG; /rank\\(?\\)? == 0/ | WHO
fix: every rank | all ranks
never: drop_last; join(); /ranks? 1,2,3 (left|skipped|is wrong|are wrong)/
limit: 14
"""

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from tests.zoo.common import TWIN, init

GATHER_ON_ALL = TWIN


class MLP(nn.Module):
    def __init__(self, dim: int = 8) -> None:
        super().__init__()
        self.up = nn.Linear(dim, 2 * dim, bias=False)
        self.down = nn.Linear(2 * dim, dim, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(self.up(x).relu())  # type: ignore[no-any-return]


class RolloutEngine:
    """Stands for the inference server that rank 0 talks to."""

    weights: dict[str, torch.Tensor]
    version: int

    def __init__(self) -> None:
        self.weights, self.version = {}, 0

    def update_weight(self, name: str, tensor: torch.Tensor) -> None:
        self.weights[name] = tensor.clone()


class Trainer:
    def __init__(self) -> None:
        self.mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        torch.manual_seed(1)
        self.model = nn.Sequential(MLP(), MLP())
        for layer in self.model:
            parallelize_module(
                layer, self.mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()}
            )
            fully_shard(layer, mesh=self.mesh["dp"])
        fully_shard(self.model, mesh=self.mesh["dp"])
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-2)
        self.engine = RolloutEngine()
        self.data = torch.Generator().manual_seed(self.mesh["dp"].get_local_rank())

    def train_batch(self) -> None:
        x = torch.randn(4, 8, generator=self.data)
        loss = (self.model(x) - 1).pow(2).mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def upload_weights(self, version: int) -> None:
        for name, param in self.model.named_parameters():
            if dist.get_rank() == 0 or GATHER_ON_ALL:  # WHO
                tensor = param.data
                if isinstance(tensor, DTensor):
                    tensor = tensor.full_tensor()  # BUG
            if dist.get_rank() == 0:
                self.engine.update_weight(name, tensor)
        dist.barrier()
        self.engine.version = version


def main() -> None:
    init()
    trainer = Trainer()
    for step in range(1, 7):
        trainer.train_batch()
        if step % 3 == 0:
            trainer.upload_weights(version=step)


main()
dist.destroy_process_group()
