"""From the second epoch rank 1 leaves the optimizer's step early: all it owns is frozen then.

ranks: 3
expect: op_mismatch
suspects: 1
status: diverged
cause: rank 1; BUG; EARLY | return | skip_idle | grads
fix: every rank | all ranks
never: drop_last; join(); /ranks? (0,2|0 and 2) (left|skipped|is wrong|are wrong)/;
    find_unused_parameters
"""

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import nn

from tests.zoo.common import TWIN, init

WIDTH = 12


class Distributor:
    """Deals the parameters out to the ranks; each computes its own updates and all gather them."""

    def __init__(self, params: Iterable[nn.Parameter]) -> None:
        self.params = list(params)
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        sizes = [0] * self.world
        for index, param in enumerate(self.params):
            sizes[index % self.world] += param.numel()
        self.length = max(sizes)

    def owned_by(self, rank: int) -> list[nn.Parameter]:
        return self.params[rank :: self.world]

    def update_params(self, updates: list[torch.Tensor]) -> None:
        local = torch.zeros(self.length)
        flat = torch.cat([u.flatten() for u in updates])
        local[: flat.numel()] = flat
        everyone = torch.empty(self.world * self.length)
        dist.all_gather_into_tensor(everyone, local)  # BUG
        for rank, part in enumerate(everyone.split(self.length)):  # type: ignore[no-untyped-call]
            offset = 0
            for param in self.owned_by(rank):
                step = part[offset : offset + param.numel()].view_as(param)
                param.data.add_(step)
                offset += param.numel()


class DistributedShampoo:
    def __init__(
        self, params: Iterable[nn.Parameter], lr: float = 0.05, skip_idle: bool = True
    ) -> None:
        self.distributor = Distributor(params)
        self.lr = lr
        self.skip_idle = skip_idle
        self.factors: dict[nn.Parameter, torch.Tensor] = {}

    def _precondition(self, param: nn.Parameter) -> torch.Tensor:
        if param.grad is None:
            return torch.zeros_like(param)
        grad = param.grad.view(param.shape[0], -1)
        factor = self.factors.setdefault(param, torch.eye(grad.shape[0]))
        factor.add_(grad @ grad.T)
        return (-self.lr * torch.linalg.solve(factor, grad)).view_as(  # type: ignore[no-any-return]
            param
        )

    @torch.no_grad()
    def step(self) -> None:
        mine = self.distributor.owned_by(self.distributor.rank)
        grads = [p.grad for p in mine if p.grad is not None]
        if self.skip_idle and not grads:
            return  # EARLY
        self.distributor.update_params([self._precondition(p) for p in mine])


def sync_gradients(model: nn.Module) -> None:
    for param in model.parameters():
        if param.requires_grad:
            dist.all_reduce(param.grad, op=dist.ReduceOp.SUM)
            param.grad /= dist.get_world_size()  # type: ignore[operator, assignment]


def main() -> None:
    rank = init()
    torch.manual_seed(3)
    model = nn.Sequential(*[nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3)])
    optimizer = DistributedShampoo(model.parameters(), skip_idle=not TWIN)
    generator = torch.Generator().manual_seed(100 + rank)
    for epoch in range(3):
        if epoch == 1:
            model[1].requires_grad_(False)
        for _ in range(4):
            model.zero_grad(set_to_none=True)
            model(torch.randn(8, WIDTH, generator=generator)).square().mean().backward()
            sync_gradients(model)
            optimizer.step()
    dist.destroy_process_group()


main()
