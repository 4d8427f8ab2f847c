"""In epoch two rank 1's cuts fill fewer batches: it goes on to validate while rank 0 trains on.

ranks: 2
expect: shape_mismatch
suspects: none
status: diverged
cause: rank 1; BUG | VALIDATE; LOOP | for | batches | data | loop
fix: same number | drop_last | join | every rank | all ranks | both ranks
never: /rank 0 (ran out|has fewer|had fewer|finished its)/; torch.cat
"""

import random
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP  # noqa: N817

from tests.zoo.common import TWIN, init

SEED = 10
MAX_DURATION = 20.0
MAX_BATCHES = 4 if TWIN else None
CUTS = [9, 4, 8, 7, 3, 6, 10, 5, 8, 6]


class DynamicBucketingSampler:
    """Batches of at most MAX_DURATION seconds, the cuts in an order per rank and epoch."""

    def __init__(self, rank: int) -> None:
        self.rank, self.epoch = rank, 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[list[int]]:
        cuts = list(CUTS)
        random.Random(SEED + 10 * self.epoch + self.rank).shuffle(cuts)
        batches: list[list[int]] = [[]]
        seconds = 0.0
        for cut in cuts:
            if seconds + cut > MAX_DURATION:
                batches.append([])
                seconds = 0.0
            batches[-1].append(cut)
            seconds += cut
        return iter(batches[:MAX_BATCHES])


class MetricsTracker(dict[str, float]):
    def update_with(self, frames: float, loss: float) -> None:
        self["frames"] = self.get("frames", 0.0) + frames
        self["loss"] = self.get("loss", 0.0) + loss * frames
        self["utterances"] = self.get("utterances", 0.0) + 1

    def reduce(self) -> None:
        keys = sorted(self)
        values = torch.tensor([float(self[key]) for key in keys])
        dist.all_reduce(values)  # BUG
        self.update(zip(keys, values.tolist(), strict=True))


def features(batch: list[int]) -> torch.Tensor:
    return torch.stack([torch.full((6,), cut / 10.0) for cut in batch])


def compute_loss(model: nn.Module, batch: list[int]) -> torch.Tensor:
    x = features(batch)
    return (model(x) - x.mean(1, keepdim=True)).square().mean()  # type: ignore[no-any-return]


def compute_validation_loss(model: nn.Module, valid: list[list[int]]) -> float:
    tracker = MetricsTracker()
    model.eval()
    with torch.no_grad():
        for batch in valid:
            tracker.update_with(sum(batch), compute_loss(model, batch).item())
    model.train()
    tracker.reduce()
    return tracker["loss"] / tracker["frames"]


def train_one_epoch(
    model: nn.Module, optimizer: torch.optim.Optimizer, sampler: DynamicBucketingSampler
) -> None:
    for batch in sampler:  # LOOP
        loss = compute_loss(model, batch)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def run(rank: int) -> None:
    torch.manual_seed(42)
    model = DDP(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    sampler = DynamicBucketingSampler(rank)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        train_one_epoch(model, optimizer, sampler)
        valid_loss = compute_validation_loss(model, [[3, 4], [8, 2 + rank]])  # VALIDATE
        if rank == 0:
            print(f"epoch {epoch}: validation {valid_loss:.4f}")


rank = init()
run(rank)
dist.destroy_process_group()
