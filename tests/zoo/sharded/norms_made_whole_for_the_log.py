"""The metric logger turns the norms of the gradients, DTensors, into numbers on rank 0 only.

ranks: 4
expect: op_mismatch shape_mismatch
suspects: 0
status: diverged
cause: /ranks? 0/; BUG; rank_zero | GUARD
fix: every rank | all ranks | /outside (of )?(the )?(condition|if|guard)/
    | /before the (condition|if|check|guard)/
never: drop_last; join(); /ranks? 1 (left out|skipped|is wrong)/
"""

from collections.abc import Mapping

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from tests.zoo.common import TWIN, init

PLAN = {"up": ColwiseParallel(), "down": RowwiseParallel()}


class MLP(nn.Module):
    def __init__(self, dim: int = 8) -> None:
        super().__init__()
        self.up = nn.Linear(dim, 4 * dim, bias=False)
        self.down = nn.Linear(4 * dim, dim, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.relu(self.up(x)))  # type: ignore[no-any-return]


def to_scalar(value: torch.Tensor | float) -> float:
    if isinstance(value, DTensor):
        value = value.full_tensor()  # BUG
    return float(value)


class MetricLogger:
    def __init__(self, every: int, rank_zero: bool, eager: bool) -> None:
        self.every, self.rank_zero, self.eager = every, rank_zero, eager
        self.history: list[tuple[int, dict[str, float]]] = []

    def log(self, step: int, metrics: Mapping[str, torch.Tensor | float]) -> None:
        if step % self.every:
            return
        if self.eager:
            metrics = {name: to_scalar(value) for name, value in metrics.items()}
        if self.rank_zero:  # GUARD
            self.history.append((step, {name: to_scalar(value) for name, value in metrics.items()}))


class Trainer:
    def __init__(self, mesh: DeviceMesh) -> None:
        torch.manual_seed(0)
        self.mesh = mesh
        self.model = nn.Sequential(*(parallelize_module(MLP(), mesh["tp"], PLAN) for _ in range(2)))
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.05)
        self.logger = MetricLogger(every=5, rank_zero=dist.get_rank() == 0, eager=TWIN)

    def sync_gradients(self) -> None:
        group = self.mesh["dp"].get_group()
        for p in self.model.parameters():
            grad = p.grad.to_local()  # type: ignore[union-attr]
            dist.all_reduce(grad, group=group)
            grad /= group.size()

    def step(self, step: int, x: torch.Tensor) -> None:
        loss = self.model(x).square().mean()
        loss.backward()
        self.sync_gradients()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        metrics = {
            f"grad_norm/{name}": p.grad.norm()  # type: ignore[union-attr]
            for name, p in self.model.named_parameters()
        }
        self.opt.step()
        self.opt.zero_grad()
        self.logger.log(step, {"loss": loss.detach(), **metrics})


rank = init()
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
trainer = Trainer(mesh)
gen = torch.Generator().manual_seed(mesh["dp"].get_local_rank())
for step in range(1, 9):
    trainer.step(step, torch.randn(4, 8, generator=gen))
dist.destroy_process_group()
