"""Rank 0 of two writes a line with a cached property of the trainer, and the property reduces.

ranks: 2
expect: op_mismatch shape_mismatch dtype_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; LINE | FIRST; property | throughput
fix: property | throughput; every rank | before | outside | out of
never: decide together before; ambiguous; do not show which; same number of iterations
"""

from functools import cached_property

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


class Window:
    """The tokens of the last steps."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens

    @cached_property
    def throughput(self) -> float:
        total = torch.tensor([self.tokens], dtype=torch.float64)
        dist.all_reduce(total)  # BUG
        return float(total) / 10.0


class Trainer:
    def __init__(self, rank: int) -> None:
        self.rank, self.weight = rank, torch.ones(4)
        self.shows = rank == 0 or TWIN

    def step(self) -> int:
        gradient = self.weight * 0.1
        dist.all_reduce(gradient)
        self.weight -= gradient / dist.get_world_size()
        return 128 + self.rank

    def fit(self, steps: int) -> None:
        tokens = 0
        for step in range(1, steps + 1):
            tokens += self.step()
            if step % 4:
                continue
            window, tokens = Window(tokens), 0
            if self.shows:  # FIRST
                print(step, window.throughput, flush=True)  # LINE


Trainer(init()).fit(steps=12)
dist.destroy_process_group()
