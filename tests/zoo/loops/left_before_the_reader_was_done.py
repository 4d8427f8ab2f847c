"""Rank 1 breaks out of its second epoch: the sum behind the reader's last yield is not reached.

ranks: 3
expect: op_mismatch
suspects: 1
status: diverged
cause: rank 1; BUG; break | budget | yield | tokens | generator
fix: every rank | all ranks | outside | regardless
never: drop_last; join(); rank 0 left; rank 2 left
"""

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import nn
from torch.optim import SGD

from tests.zoo.common import TWIN, init

BATCHES, BUDGET = 5, 600  # an epoch has so many batches, or so many tokens


class Reader:
    """Batches of documents of one length each; keeps count of what all ranks read."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.read = torch.zeros(1, dtype=torch.int64)

    def length(self, epoch: int, k: int) -> int:
        if (self.rank, epoch) == (1, 1):
            return 30 + k  # a shard of long documents: 640 tokens, 504 before the last batch
        return 10 + (self.rank + epoch + k) % 4

    def epoch(self, epoch: int) -> Iterator[torch.Tensor]:
        fresh = torch.zeros(1, dtype=torch.int64)
        for k in range(BATCHES):
            generator = torch.Generator().manual_seed(100 * epoch + 10 * k + self.rank)
            batch = torch.randint(0, 16, (4, self.length(epoch, k)), generator=generator)
            fresh += len(batch)
            yield batch
        dist.all_reduce(fresh)  # BUG
        self.read += fresh


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(16, 8), nn.Linear(8, 16)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(
            self.head(self.embed(tokens[:, :-1])).flatten(0, 1), tokens[:, 1:].flatten()
        )


def train_step(model: nn.Module, optimizer: SGD, batch: torch.Tensor) -> None:
    optimizer.zero_grad()
    model(batch).backward()
    flat = torch.cat([p.grad.flatten() for p in model.parameters()])  # type: ignore[union-attr]
    dist.all_reduce(flat)
    sizes = [p.numel() for p in model.parameters()]
    for p, part in zip(model.parameters(), flat.split(sizes), strict=True):  # type: ignore[no-untyped-call]
        p.grad.copy_(part.view_as(p) / dist.get_world_size())  # type: ignore[union-attr]
    optimizer.step()


def train_epoch(model: Model, optimizer: SGD, reader: Reader, epoch: int, read_on: bool) -> None:
    tokens, batches = 0, reader.epoch(epoch)
    for batch in batches:
        train_step(model, optimizer, batch)
        tokens += batch.numel()
        if tokens >= BUDGET:
            break
    for _ in batches if read_on else ():
        pass


def held_out(model: nn.Module, rank: int) -> float:
    probe = torch.arange(24).view(2, 12).add(rank) % 16
    scores = [torch.zeros(1) for _ in range(dist.get_world_size())]
    dist.all_gather(scores, model(probe).detach().view(1))
    return torch.cat(scores).mean().item()


def main() -> None:
    rank = init()
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    reader = Reader(rank)
    for epoch in range(3):
        train_epoch(model, optimizer, reader, epoch, read_on=TWIN)
        loss = held_out(model, rank)
        if rank == 0:
            print(f"epoch {epoch}: {loss:.3f}, {reader.read.item()} documents")
    dist.destroy_process_group()


main()
