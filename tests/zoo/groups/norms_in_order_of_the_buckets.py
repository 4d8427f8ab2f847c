"""The third pipeline stage has its expert parameters first, so takes the two norms the other way.

ranks: 4
expect: deadlock
suspects: 2
status: hung
cause: /ranks? 2/; BUG | CHAIN; order* | swap* | before | first | circle | cycle
fix: order* | sort*
never: drop_last; join(); /ranks? 0,1,3 (left|skipped|is wrong|are wrong|swapped)/; fewer batches
limit: 14
"""

from collections import defaultdict
from typing import Any

import torch
import torch.distributed as dist
import torch.nn as nn

from tests.zoo.common import TWIN, init

HIDDEN = 8
KEY_FIELDS = ("wd_mult", "lr_mult", "is_expert") if TWIN else ("wd_mult", "lr_mult")


class MoELayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(HIDDEN, HIDDEN) for _ in range(2))
        self.router = nn.Linear(HIDDEN, 2)
        for p in self.experts.parameters():
            p.is_expert = True  # type: ignore[attr-defined]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate = self.router(x).softmax(-1)
        out: torch.Tensor = x + sum(gate[:, i : i + 1] * e(x) for i, e in enumerate(self.experts))
        return out


LAYOUT = ["dense|moe", "dense|moe", "moe|dense", "dense|moe|dense"]


def build_stage(rank: int) -> nn.Sequential:
    torch.manual_seed(rank)
    return nn.Sequential(
        *(
            MoELayer() if kind == "moe" else nn.Linear(HIDDEN, HIDDEN)
            for kind in LAYOUT[rank].split("|")
        )
    )


class MegatronOptimizer:
    def __init__(self, params: list[nn.Parameter], stats_group: dist.ProcessGroup) -> None:
        self.params, self.stats_group = params, stats_group
        self.inner = torch.optim.AdamW(params, lr=1e-3)

    def get_grad_norm(self) -> torch.Tensor:
        total = torch.stack(
            [p.grad.pow(2).sum() for p in self.params]  # type: ignore[union-attr]
        ).sum()
        dist.all_reduce(total, group=self.stats_group)  # BUG
        return total.sqrt()


class ChainedOptimizer:
    def __init__(self, optimizers: list[MegatronOptimizer]) -> None:
        self.chained = optimizers

    def step(self, clip: float) -> None:
        if clip:
            norms = [o.get_grad_norm() for o in self.chained]  # CHAIN
            total = torch.stack(norms).norm()
            for o in self.chained:
                for p in o.params:
                    p.grad.mul_(min(1.0, clip / (total.item() + 1e-6)))  # type: ignore[union-attr]
        for o in self.chained:
            o.inner.step()
            o.inner.zero_grad()


def get_optimizer(stage: nn.Module, groups: dict[bool, dist.ProcessGroup]) -> ChainedOptimizer:
    buckets: dict[tuple[tuple[str, Any], ...], list[nn.Parameter]] = defaultdict(list)
    for p in stage.parameters():
        key = {
            "wd_mult": float(p.dim() > 1),
            "lr_mult": 1.0,
            "is_expert": getattr(p, "is_expert", False),
        }
        buckets[tuple(key.items())].append(p)
    ordered = sorted(buckets.items(), key=lambda kv: tuple(dict(kv[0])[f] for f in KEY_FIELDS))
    return ChainedOptimizer(
        [MegatronOptimizer(ps, groups[dict(k)["is_expert"]]) for k, ps in ordered]
    )


def forward_backward(stage: nn.Module, rank: int, world: int, step: int) -> None:
    x = torch.randn(4, HIDDEN, generator=torch.Generator().manual_seed(step))
    if rank > 0:
        dist.recv(x, src=rank - 1)
        x.requires_grad_()
    y = stage(x)
    if rank < world - 1:
        dist.send(y.detach(), dst=rank + 1)
        grad = torch.empty_like(y)
        dist.recv(grad, src=rank + 1)
    else:
        grad = y.detach() / y.numel()
    y.backward(grad)
    if rank > 0:
        dist.send(x.grad, dst=rank - 1)  # type: ignore[arg-type]


def main() -> None:
    rank = init()
    world = dist.get_world_size()
    groups = {False: dist.new_group(range(world)), True: dist.new_group(range(world))}
    stage = build_stage(rank)
    optimizer = get_optimizer(stage, groups)
    for step in range(6):
        forward_backward(stage, rank, world, step)
        optimizer.step(clip=1.0 if step >= 3 else 0.0)  # no clipping while the rate warms up


main()
dist.destroy_process_group()
