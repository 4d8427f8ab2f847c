"""The last shard has two row groups for three ranks: rank 2 looks for a document in it for ever.

ranks: 3
expect: missing_call
suspects: 2
status: hung
cause: rank 2; BUG; ASKED; document_batches
fix: rank 2 | BUG | ASKED | loop* | endless* | document_batches
never: drop_last; join(); /ranks? (0|1|0,1|0-1|0 and 1) (is|are) (busy|stuck|silent)/
limit: 9
"""

from collections.abc import Iterator
from itertools import count

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

EVAL_EVERY = 4
STEPS = 8


class Shard:
    """One file of the corpus; a row group is a block of token rows."""

    def __init__(self, name: str, row_groups: int) -> None:
        generator = torch.Generator().manual_seed(len(name) + row_groups)
        self.name = name
        self.groups = [torch.randn(4, 6, generator=generator) for _ in range(row_groups)]


def list_shards() -> list[Shard]:
    return [
        Shard("shard_00000", 6),
        Shard("shard_00001", 7),
        Shard("shard_00002", 3 if TWIN else 2),
    ]


def document_batches(split: str, rank: int, world: int) -> Iterator[torch.Tensor]:
    """Endless: the shards of a split over and over, every row group read by one rank."""
    shards = list_shards()
    shards = shards[:-1] if split == "train" else shards[-1:]
    yield from (one for _ in count() for s in shards for one in s.groups[rank::world])  # BUG


@torch.no_grad()
def evaluate_bpb(
    model: DistributedDataParallel, batches: Iterator[torch.Tensor], steps: int
) -> float:
    totals = torch.zeros(2)
    for _ in range(steps):
        rows = next(batches)  # ASKED
        totals[0] += model.module(rows).square().sum()
        totals[1] += rows.numel()
    dist.all_reduce(totals)
    return (totals[0] / totals[1]).item()


def train(rank: int) -> None:
    world = dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(6, 6))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    train_batches = document_batches("train", rank, world)
    for step in range(STEPS):
        if step and step % EVAL_EVERY == 0:
            model.eval()
            bpb = evaluate_bpb(model, document_batches("val", rank, world), steps=2)
            model.train()  # type: ignore[no-untyped-call]
            if rank == 0:
                print(f"step {step}: validation {bpb:.3f}")
        loss = model(next(train_batches)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


train(init())
dist.destroy_process_group()
