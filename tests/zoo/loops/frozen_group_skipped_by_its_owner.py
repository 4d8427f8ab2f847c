"""All that rank 1 owns of the first group is frozen, and it skips the gathering of its updates.

ranks: 3
expect: shape_mismatch
suspects: 1
status: diverged
cause: rank 1; BUG | GATHER; SKIP | skip_idle
fix: every rank | all ranks | each rank | empty | zero* | skip_idle | unconditional* | continue
never: /ranks? (0,2|0 and 2) (left|skipped|(is|are) (wrong|to blame))/; drop_last; join()
"""

from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from tests.zoo.common import TWIN, init


class Group:
    """A group of parameters; parameter i belongs to rank i modulo the number of ranks."""

    def __init__(self, params: list[Any]) -> None:
        self.params, self.world, self.rank = params, dist.get_world_size(), dist.get_rank()
        self.mine = self.params[self.rank :: self.world]
        shards = [self.params[r :: self.world] for r in range(self.world)]
        self.width = max(sum(p.numel() for p in shard) for shard in shards)

    @torch.no_grad()
    def exchange(self, updates: dict[torch.Tensor, torch.Tensor]) -> None:
        flat = torch.zeros(self.width)
        for p, (start, stop) in bounds(self.mine):
            if p in updates:
                flat[start:stop] = updates[p].flatten()
        out = torch.empty(self.world * self.width)
        dist.all_gather_into_tensor(out, flat)  # GATHER
        for r, part in enumerate(out.chunk(self.world)):
            for p, (start, stop) in bounds(self.params[r :: self.world]):
                p.add_(part[start:stop].view_as(p))


def bounds(shard: list[torch.Tensor]) -> Iterator[tuple[torch.Tensor, tuple[int, int]]]:
    start = 0
    for p in shard:
        yield p, (start, start + p.numel())
        start += p.numel()


class ShardedShampoo:
    def __init__(self, groups: list[list[torch.Tensor]], skip_idle: bool = True) -> None:
        self.groups, self.lr, self.skip_idle = [Group(g) for g in groups], 0.05, skip_idle

    def zero_grad(self) -> None:
        for group in self.groups:
            for p in group.params:
                p.grad = None

    def step(self) -> None:
        for group in self.groups:
            owned = [p for p in group.mine if p.grad is not None]
            if self.skip_idle and not owned:  # SKIP
                continue
            updates = {p: -self.lr * p.grad for p in owned}
            group.exchange(updates)  # BUG


def train(rank: int) -> None:
    torch.manual_seed(6)
    proj, embed, mixer = (nn.Linear(8, 8, bias=False) for _ in range(3))
    head, temperature = nn.Linear(8, 3), nn.Parameter(torch.ones(()))
    body = nn.Sequential(embed, nn.Tanh(), proj, nn.Tanh(), mixer)
    trunk = [proj.weight, embed.weight, mixer.weight]
    tail = [head.weight, head.bias, temperature]
    opt = ShardedShampoo([trunk, tail], skip_idle=not TWIN)
    gen = torch.Generator().manual_seed(rank)
    for epoch in range(3):
        embed.requires_grad_(epoch < 1)
        for _ in range(4):
            opt.zero_grad()
            out = head(body(torch.randn(4, 8, generator=gen))) * temperature
            out.square().mean().backward()
            for p in [*trunk, *tail]:
                if p.requires_grad:
                    dist.all_reduce(p.grad)
            opt.step()


train(init())
dist.destroy_process_group()
