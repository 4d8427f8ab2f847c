"""The stages behind the first count their steps by stand-in data, shorter than the real pictures.

ranks: 3
expect: p2p_unmatched
suspects: none
status: hung
cause: rank 0; rank 1; BUG | GRAD; LOOP | SHORT;
    more turns | fewer turns | longer | shorter | batches
fix: LOOP | SHORT | loader | same number of steps | same length | as many | one longer
never: /rank [01] (is wrong|is to blame)/; /rank 2 (is wrong|is to blame|skipped)/;
    batch_isend_irecv; join()
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset

from tests.zoo.common import TWIN, init

MICRO, WIDTH = 4, 6


class Pictures(Dataset[torch.Tensor]):
    def __init__(self, count: int) -> None:
        self.x = torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(1))

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, i: int) -> torch.Tensor:
        return self.x[i]


class SyntheticDataset(Dataset[torch.Tensor]):
    """Stages that get their input from a neighbour need no pictures, only a length."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, i: int) -> torch.Tensor:
        return torch.zeros(1)


class StageRuntime:
    def __init__(self, stage: int, stages: int) -> None:
        torch.manual_seed(stage)
        self.stage, self.first, self.last = stage, stage == 0, stage == stages - 1
        self.module = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())
        self.opt = torch.optim.SGD(self.module.parameters(), lr=0.1)

    def run(self, batch: torch.Tensor) -> None:
        if self.first:
            x = batch
        else:
            x = torch.empty(MICRO, WIDTH)
            dist.recv(x, src=self.stage - 1)
            x.requires_grad_()
        y = self.module(x)
        if self.last:
            y.square().mean().backward()
        else:
            dist.send(y.detach(), dst=self.stage + 1)  # BUG
            grad = torch.empty_like(y)
            dist.recv(grad, src=self.stage + 1)  # GRAD
            y.backward(grad)
        if not self.first:
            dist.send(x.grad, dst=self.stage - 1)  # type: ignore[arg-type]
        self.opt.step()
        self.opt.zero_grad()


def loader_for(stage: int, pictures: Pictures) -> DataLoader[torch.Tensor]:
    if stage == 0:
        gen = torch.Generator().manual_seed(3)
        return DataLoader(pictures, batch_size=MICRO, shuffle=True, generator=gen)
    return DataLoader(SyntheticDataset(len(pictures) if TWIN else 20), batch_size=MICRO)  # SHORT


def main() -> None:
    rank = init()
    runtime = StageRuntime(rank, dist.get_world_size())
    loader = loader_for(rank, Pictures(24))
    for _ in range(2):
        for batch in loader:  # LOOP
            runtime.run(batch)
    dist.destroy_process_group()


main()
