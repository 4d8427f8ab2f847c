"""The middle stage overflows, and leaves the step before the norm is summed over the pipeline.

ranks: 3
expect: deadlock missing_call
suspects: 1
status: hung
cause: rank 1; BUG; SKIP | has_overflow
fix: every rank | all ranks | each rank | all stages | every stage | same decision | same branch |
    agree* | together
never: /rank 0 (skipped|left out|is wrong|is to blame)/;
    /rank 2 (skipped|left out|is wrong|is to blame)/;
    /ranks? (0,2|0 and 2) (skipped|left out|is wrong|are wrong|is to blame|are to blame)/
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from tests.zoo.common import TWIN, init

MICRO, WIDTH = 2, 6


class MixedPrecisionOptimizer:
    def __init__(self, module: nn.Module, sync_overflow: bool) -> None:
        self.params: list[Any] = list(module.parameters())
        self.inner = torch.optim.SGD(self.params, lr=0.05)
        self.scale, self.sync_overflow = 1024.0, sync_overflow

    def has_overflow(self) -> bool:
        bad = torch.tensor([float(any(not p.grad.isfinite().all() for p in self.params))])
        if self.sync_overflow:
            dist.all_reduce(bad, op=dist.ReduceOp.MAX)
        return bad.item() > 0

    def unscale_and_clip(self, norm: float) -> None:
        factor = 1.0 / (norm + 1e-6)
        for p in self.params:
            p.grad.mul_(min(factor, 1.0) / self.scale)

    def step(self) -> bool:
        if self.has_overflow():  # SKIP
            self.scale /= 2
            self.inner.zero_grad()
            return False
        squares = [(p.grad / self.scale).pow(2).sum() for p in self.params]
        total = torch.stack(squares).sum().reshape(1)
        dist.all_reduce(total)  # BUG
        self.unscale_and_clip(total.sqrt().item())
        self.inner.step()
        self.inner.zero_grad()
        return True


class Stage:
    def __init__(self, rank: int, world: int) -> None:
        self.prev = rank - 1 if rank else None
        self.next = rank + 1 if rank + 1 < world else None
        self.block = nn.Linear(WIDTH, WIDTH)

    def run_microbatch(self, scale: float, spike: bool) -> None:
        if self.prev is None:
            x = torch.randn(MICRO, WIDTH)
        else:
            x = torch.empty(MICRO, WIDTH)
            dist.recv(x, src=self.prev)
            x.requires_grad_()
        out = self.block(x).tanh()
        if self.next is None:
            (out.pow(2).mean() * scale).backward()
        else:
            dist.send(out.detach(), dst=self.next)
            grad = torch.empty(MICRO, WIDTH)
            dist.recv(grad, src=self.next)
            out.backward(grad)
        if spike:
            self.block.weight.grad[0, 0] *= float("inf")  # type: ignore[index]
        if self.prev is not None:
            dist.send(x.grad, dst=self.prev)  # type: ignore[arg-type]


def main() -> None:
    rank = init()
    torch.manual_seed(20 + rank)
    stage = Stage(rank, dist.get_world_size())
    optim = MixedPrecisionOptimizer(stage.block, sync_overflow=TWIN)
    skipped = 0
    for step in range(7):
        for micro in range(3):
            stage.run_microbatch(optim.scale, spike=(rank, step, micro) == (1, 4, 2))
        skipped += not optim.step()
    dist.barrier()


main()
dist.destroy_process_group()
