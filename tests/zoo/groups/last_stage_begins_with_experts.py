"""The last stage of a pipeline sums the norms of experts first, the others those of dense layers.

Groups of parameters are made in the order of the stage's layers, when the experts thaw.

ranks: 4
expect: deadlock missing_call
suspects: 3
status: hung diverged
cause: rank 3; BUG; order | before | circle | waits
fix: same order | every rank | all ranks | one order
never: left the loop; raised
"""

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import nn

from tests.zoo.common import TWIN, init

LAYOUT = {
    0: ("embed", "dense"),
    1: ("dense", "moe"),
    2: ("dense", "moe"),
    3: ("moe", "dense", "head"),
}
WIDTH, EPOCHS, STEPS = 4, 3, 4


class Layer(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.net = kind, nn.Linear(WIDTH, WIDTH)
        self.net.requires_grad_(kind != "moe")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.net(x)) + x


class Stage:
    def __init__(self, rank: int) -> None:
        torch.manual_seed(rank)
        self.rank, self.last = rank, max(LAYOUT)
        self.layers = [Layer(kind) for kind in LAYOUT[rank]]
        self.net = nn.Sequential(*self.layers)

    def train_step(self, data: torch.Tensor) -> None:
        x = data.clone()
        if self.rank > 0:
            dist.recv(x, self.rank - 1)
            x.requires_grad_()
        y = self.net(x)
        if self.rank < self.last:
            dist.send(y.detach(), self.rank + 1)
            grad = torch.empty_like(y)
            dist.recv(grad, self.rank + 1)
            y.backward(grad)
        else:
            y.pow(2).mean().backward()
        if self.rank > 0:
            assert x.grad is not None
            dist.send(x.grad, self.rank - 1)


class Chained:
    """One optimizer for each kind of parameters, clipped by the norm of its own."""

    def __init__(self, layers: Iterable[Layer], groups: dict[bool, dist.ProcessGroup]) -> None:
        kinds: dict[bool, list[nn.Parameter]] = {}
        for layer in layers:
            thawed = [one for one in layer.parameters() if one.requires_grad]
            if thawed:
                kinds.setdefault(layer.kind == "moe", []).extend(thawed)
        chosen = sorted(kinds) if TWIN else list(kinds)
        self.parts = [(groups[kind], kinds[kind]) for kind in chosen]
        self.steps = [torch.optim.SGD(params, lr=0.1) for _, params in self.parts]

    def norm(self, params: list[nn.Parameter], group: dist.ProcessGroup) -> torch.Tensor:
        total = torch.stack([p.grad.norm() ** 2 for p in params if p.grad is not None]).sum()
        dist.all_reduce(total, group=group)  # BUG
        return total.sqrt()

    def step(self) -> None:
        for (group, params), optimizer in zip(self.parts, self.steps, strict=True):
            scale = (1.0 / (self.norm(params, group) + 1e-6)).clamp(max=1.0)
            for parameter in params:
                if parameter.grad is not None:
                    parameter.grad.mul_(scale)
            optimizer.step()
            optimizer.zero_grad()


def main() -> None:
    rank = init()
    groups = {
        False: dist.new_group(list(LAYOUT)),
        True: dist.new_group([r for r, kinds in LAYOUT.items() if "moe" in kinds]),
    }
    stage = Stage(rank)
    optimizer = Chained(stage.layers, groups)
    for epoch in range(EPOCHS):
        if epoch == 1:
            stage.net.requires_grad_()
            optimizer = Chained(stage.layers, groups)
        for step in range(STEPS):
            stage.train_step(torch.full((2, WIDTH), 0.1 * (step + 1)))
            optimizer.step()
        print(f"epoch {epoch} done", flush=True)
    dist.destroy_process_group()


main()
