"""The first of two ranks tries the wrapped model every second epoch, which sends its buffers out.

The first time they are taken for those of the next training step, and the ranks are together
again right behind it; the second time the other rank is done.

expect: op_mismatch
suspects: 0
status: diverged
cause: rank 0; forward; BUG; ASKED; did not run
fix: every rank; model.module
never: ambiguous; find_unused_parameters; model.join(); drop_last
"""

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init


class Denoiser(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 6)
        self.norm = nn.BatchNorm1d(6)

    def forward(self, noisy: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(self.norm(self.inner(noisy)))


class Run:
    def __init__(self, rank: int) -> None:
        self.shows = rank == 0
        self.model = DistributedDataParallel(Denoiser())

    def fit_once(self) -> None:
        self.model.module.train()
        for noisy in torch.randn(3, 4, 6):
            self.model(noisy).square().mean().backward()

    @torch.no_grad()
    def show(self) -> None:
        model = self.model.module if TWIN else self.model
        model.eval()
        for noisy in torch.randn(2, 4, 6):
            print(float(model(noisy).norm()))  # BUG

    def fit(self) -> None:
        for epoch in range(4):
            self.fit_once()
            if self.shows and epoch % 2 == 1:  # ASKED
                self.show()


run = Run(init())
run.fit()
torch.distributed.barrier()
