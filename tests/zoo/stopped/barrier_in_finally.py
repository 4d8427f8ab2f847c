"""Rank 1 raises over a broken record; a barrier in its `finally` block meets the others' gradients.

The exception is not seen before the barrier fails.

ranks: 3
expect: op_mismatch missing_call raised
limit: 20
suspects: 1
status: diverged
cause: rank 1; finally | exception | rais* | ValueError | except* | handler | cleanup; barrier | BUG
fix: finally | all ranks | every rank | except* | exception | abort | remove | agree* | catch*
never: drop_last; sampler; wrong root; add a barrier
"""

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()


def parse(line: str) -> list[float]:
    fields = line.split(",")
    if len(fields) != 3:
        raise ValueError(f"record with {len(fields)} fields: {line!r}")
    return [float(field) for field in fields]


def batches(epoch: int) -> Iterator[torch.Tensor]:
    lines = [f"{i},{i + epoch},{rank}" for i in range(12)]
    if (rank, epoch) == (1, 1) and not TWIN:
        lines[7] = "7,8"
    for at in range(0, len(lines), 4):
        yield torch.tensor([parse(line) for line in lines[at : at + 4]])


class Session:
    def __enter__(self) -> "Session":
        self.model = DistributedDataParallel(torch.nn.Linear(3, 2))
        return self

    def __exit__(self, *_: object) -> None:
        try:
            print("flushed", flush=True)
        finally:
            dist.barrier()  # BUG

    def epoch(self, epoch: int) -> None:
        for x in batches(epoch):
            self.model(x).square().mean().backward()  # BUG


with Session() as session:
    for epoch in range(3):
        session.epoch(epoch)
