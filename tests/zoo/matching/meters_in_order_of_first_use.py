"""The first batch of rank 2 has no labels: accuracy comes before loss there, and they are mixed.

ranks: 3
expect: role_mismatch
suspects: 2
status: diverged
cause: rank 2; BUG; LOSS; order* | swap* | exchang* | interchang* | revers* | permut*
fix: same order | fixed order | one order | common order | agreed order | deterministic order |
    sort* | every rank | all ranks
never: /ranks? (0,1|0-1) (skipped|are wrong|are to blame)/;
    /rank 0 (skipped|is wrong|is to blame)/; /rank 2 skipped/
"""

from collections.abc import Iterator
from typing import ClassVar

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

PAD = -100


class Mean:
    def __init__(self) -> None:
        self.total, self.count = 0.0, 0

    def update(self, value: torch.Tensor, n: int) -> None:
        self.total += float(value) * n
        self.count += n

    def packed(self) -> torch.Tensor:
        return torch.tensor([self.total, float(self.count)])

    def synced(self) -> float:
        raise NotImplementedError


class LossMeter(Mean):
    def synced(self) -> float:
        buffer = self.packed()
        dist.all_reduce(buffer)  # LOSS
        return (buffer[0] / buffer[1]).item()


class AccuracyMeter(Mean):
    def synced(self) -> float:
        buffer = self.packed()
        dist.all_reduce(buffer)  # BUG
        return (buffer[0] / buffer[1]).item()


class Results:
    KINDS: ClassVar = {"loss": LossMeter, "accuracy": AccuracyMeter}

    def __init__(self, declare: list[str]) -> None:
        self.meters: dict[str, Mean] = {key: self.KINDS[key]() for key in declare}

    def log(self, key: str, value: torch.Tensor, n: int) -> None:
        if key not in self.meters:
            self.meters[key] = self.KINDS[key]()
        self.meters[key].update(value, n)

    def reduce(self) -> dict[str, float]:
        return {key: meter.synced() for key, meter in self.meters.items()}


def batches(rank: int, epoch: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(100 * epoch + rank)
    for i in range(4):
        labels = torch.randint(0, 5, (8,), generator=generator)
        if (rank, epoch, i) == (2, 1, 0):
            labels.fill_(PAD)  # a document of nothing but prompt
        yield torch.randn(8, 5, generator=generator), labels


def validate(rank: int, epoch: int) -> dict[str, float]:
    results = Results(declare=["loss", "accuracy"] if TWIN else [])
    for logits, labels in batches(rank, epoch):
        kept = labels != PAD
        if kept.any():
            loss = torch.nn.functional.cross_entropy(logits[kept] * 9, labels[kept])
            results.log("loss", loss, int(kept.sum()))
        hits = (logits.argmax(1) == labels) | ~kept
        results.log("accuracy", hits.float().mean(), len(labels))
    report = results.reduce()
    if not 0.0 <= report["accuracy"] <= 1.0:
        raise ValueError(f"the accuracy of epoch {epoch} is no fraction: {report}")
    return report


def main() -> None:
    rank = init()
    weight = torch.zeros(5)
    for epoch in range(2):
        for step in range(3):
            grad = torch.full((5,), float(rank + step))
            dist.all_reduce(grad)
            weight -= 0.1 * grad
        print(rank, epoch, validate(rank, epoch))
    dist.barrier()
    dist.destroy_process_group()


main()
