"""A client wraps its model, so its names no longer begin with `head.`, and it shares its head.

ranks: 2
expect: op_mismatch
suspects: none
status: diverged
cause: BUG; startswith | continue; all_reduce; /ranks? (1|0,1|0-1|0 and 1)/
fix: every rank | all ranks | both | same | either
never: drop_last; join(); no_grad
"""

import time

import torch
import torch.distributed as dist
from torch import nn

from tests.zoo.common import TWIN, init

PRIVATE = "head."
TIMED: list[int] = [] if TWIN else [1]  # clients whose steps are timed from the fourth round on


class Timed(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.seconds: list[float] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        start = time.perf_counter()
        y: torch.Tensor = self.inner(x)
        self.seconds.append(time.perf_counter() - start)
        return y


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(6, 4)
        self.head = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x).relu())  # type: ignore[no-any-return]


class Client:
    model: nn.Module

    def __init__(self, rank: int) -> None:
        torch.manual_seed(0)
        self.rank, self.model = rank, Net()
        self.samples = torch.Generator().manual_seed(20 + rank)

    def local_epoch(self) -> torch.Tensor:
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        for _ in range(3):
            x = torch.randn(8, 6, generator=self.samples)
            loss = nn.functional.cross_entropy(self.model(x), (x.sum(1) > 0).long())
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        return loss.detach().reshape(1)

    def share(self) -> None:
        """Average what is common; each client keeps its own head."""
        for name, p in self.model.named_parameters():
            if name.startswith(PRIVATE):
                continue
            dist.all_reduce(p.data)  # BUG
            p.data /= dist.get_world_size()


rank = init()
client = Client(rank)
for turn in range(7):
    if turn == 3 and rank in TIMED:
        client.model = Timed(client.model)
    loss = client.local_epoch()
    client.share()
    losses = [torch.empty(1) for _ in range(dist.get_world_size())]
    dist.all_gather(losses, loss)
dist.destroy_process_group()
