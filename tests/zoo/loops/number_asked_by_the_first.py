"""Rank 0 alone reads the trial's number for a file name, a broadcast; rank 1 reports its loss.

ranks: 2
expect: op_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; is_main | rank == 0
fix: every rank | all ranks | both ranks | outside | out of
never: drop_last; join(); /rank 1 (alone|is wrong)/
"""

import math
from collections.abc import Callable
from typing import TypeVar

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

Number = TypeVar("Number", int, float)


class StudyTrial:
    def __init__(self, number: int) -> None:
        self.number = number
        self.reports: list[float] = []
        self.gen = torch.Generator().manual_seed(100 + number)

    def suggest_float(self, name: str, low: float, high: float) -> float:
        return math.exp(
            torch.empty(1).uniform_(math.log(low), math.log(high), generator=self.gen).item()
        )

    def should_prune(self) -> bool:
        return len(self.reports) >= 3 and self.reports[-1] > 1.05 * self.reports[0]


class TorchDistributedTrial:
    """Rank 0 has the trial of the study, the others None; what it knows is broadcast."""

    def __init__(self, trial: StudyTrial | None) -> None:
        self._delegate: StudyTrial = trial  # type: ignore[assignment]

    def _call_and_communicate(self, func: Callable[[], Number], dtype: torch.dtype) -> Number:
        buffer = torch.empty(1, dtype=dtype)
        if dist.get_rank() == 0:
            buffer[0] = func()
        dist.broadcast(buffer, src=0)
        return buffer.item()  # type: ignore[return-value]

    @property
    def number(self) -> int:
        return self._call_and_communicate(lambda: self._delegate.number, torch.int64)

    def suggest_float(self, name: str, low: float, high: float) -> float:
        return self._call_and_communicate(
            lambda: self._delegate.suggest_float(name, low, high), torch.float64
        )

    def report(self, value: float, step: int) -> None:
        if dist.get_rank() == 0:
            self._delegate.reports.append(value)
        dist.barrier()

    def should_prune(self) -> bool:
        return bool(
            self._call_and_communicate(lambda: int(self._delegate.should_prune()), torch.int64)
        )


class BestModel:
    def __init__(self, is_main: bool) -> None:
        self.is_main, self.loss = is_main, 0.35
        self.saved: list[str] = []

    def update(self, loss: float, trial: TorchDistributedTrial, epoch: int) -> None:
        improved = loss < self.loss
        self.loss = min(self.loss, loss)
        if improved and self.is_main:
            self.saved.append(f"trial{trial.number:03d}-epoch{epoch}.pt")  # BUG


def train_epoch(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    x: torch.Tensor,
    y: torch.Tensor,
    world: int,
) -> float:
    total = torch.zeros(1)
    for xb, yb in zip(x.split(8), y.split(8), strict=True):  # type: ignore[no-untyped-call]
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(xb), yb)
        loss.backward()  # type: ignore[no-untyped-call]
        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.grad /= world  # type: ignore[operator, assignment]
        optimizer.step()
        total += loss.detach()
    dist.all_reduce(total)
    return total.item() / world / len(x.split(8))  # type: ignore[no-any-return, no-untyped-call]


def objective(trial: TorchDistributedTrial, rank: int, world: int, best: BestModel) -> float:
    lr = trial.suggest_float("lr", 1e-3, 2e-1)
    torch.manual_seed(3)
    model = torch.nn.Linear(5, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    x = torch.randn(32, 5, generator=torch.Generator().manual_seed(rank))
    y = x.sum(1, keepdim=True)
    for epoch in range(4):
        loss = train_epoch(model, optimizer, x, y, world)
        best.update(loss, trial, epoch)
        trial.report(loss, epoch)
        if trial.should_prune():
            break
    return loss


rank = init()
world = dist.get_world_size()
best = BestModel(is_main=rank == 0 or TWIN)
losses = [
    objective(TorchDistributedTrial(StudyTrial(n) if rank == 0 else None), rank, world, best)
    for n in range(5)
]
print(losses, best.saved)
dist.destroy_process_group()
