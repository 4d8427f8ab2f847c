"""The first stage of a pipeline has no sparse layer, and leaves out the sum of auxiliary losses.

A 2-D mesh, three stages of two replicas each: ranks 0 and 1 are the first stage. The sum is over
the stages, two groups of three, once in four steps; ranks 0 and 1 go on to the next batch.

ranks: 6
expect: missing_call p2p_unmatched deadlock
suspects: 0 1
status: diverged hung
cause: rank 0 | ranks 0; BUG | HAND; all_reduce | send | recv
fix: every rank | all ranks | no rank | rank 0 | ranks 0
never: wrong peer; rank 2 left; rank 4 left
"""

from typing import ClassVar

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from tests.zoo.common import TWIN, init

STAGES, REPLICAS, WIDTH, STEPS, LOG_EVERY = 3, 2, 5, 12, 4
RATIOS = [[0, 0], [0, 4], [4, 4]]


class Tracker:
    """Collects the losses that layers have aside."""

    values: ClassVar[dict[str, torch.Tensor]] = {}

    @classmethod
    def save(cls, name: str, value: torch.Tensor) -> None:
        cls.values[name] = cls.values.get(name, torch.zeros(())) + value.detach()

    @classmethod
    def reduce(cls, name: str, group: dist.ProcessGroup) -> float | None:
        if name not in cls.values and not TWIN:
            return None  # BUG
        value = cls.values.pop(name, torch.zeros(()))
        dist.all_reduce(value, group=group)  # BUG
        return value.item()


class Layer(nn.Module):
    def __init__(self, ratio: int) -> None:
        super().__init__()
        self.ratio, self.linear = ratio, nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.linear(x).tanh()
        if self.ratio:
            Tracker.save("indexer", out[:: self.ratio].square().mean())
        return x + out


class Stage:
    def __init__(self, mesh: DeviceMesh) -> None:
        self.pipe, self.data = mesh.get_group("pp"), mesh.get_group("dp")
        self.index = mesh.get_local_rank("pp")
        self.layers = nn.Sequential(*(Layer(ratio) for ratio in RATIOS[self.index]))
        self.optimizer = torch.optim.SGD(self.layers.parameters(), lr=0.01)

    def receive(self, neighbour: int) -> torch.Tensor:
        x = torch.empty(4, WIDTH)
        dist.recv(x, group=self.pipe, group_src=neighbour)  # HAND
        return x

    def hand(self, x: torch.Tensor, neighbour: int) -> None:
        dist.send(x.contiguous(), group=self.pipe, group_dst=neighbour)  # HAND

    def train_step(self, batch: torch.Tensor) -> None:
        first, last = self.index == 0, self.index == STAGES - 1
        x = batch if first else self.receive(self.index - 1).requires_grad_()
        out = self.layers(x)
        if last:
            out.square().mean().backward()
        else:
            self.hand(out.detach(), self.index + 1)
            out.backward(self.receive(self.index + 1))
        if not first:
            assert x.grad is not None
            self.hand(x.grad, self.index - 1)
        for parameter in self.layers.parameters():
            assert parameter.grad is not None
            dist.all_reduce(parameter.grad, group=self.data)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def log(self, step: int) -> None:
        if step % LOG_EVERY == 0:
            print(step, Tracker.reduce("indexer", self.pipe))


def main() -> None:
    rank = init()
    mesh = init_device_mesh("cpu", (STAGES, REPLICAS), mesh_dim_names=("pp", "dp"))
    torch.manual_seed(rank)
    stage = Stage(mesh)
    for step in range(1, STEPS + 1):
        stage.train_step(torch.full((4, WIDTH), 0.1 * step))
        stage.log(step)
    dist.destroy_process_group()


main()
