"""Only rank 1, who writes the shard, enters a context manager that makes a group of the whole job.

ranks: 3
expect: group_mismatch missing_call deadlock
suspects: 1
status: diverged hung
cause: rank 1; BUG | ENTER; writer* | participants | WHO
fix: every rank | all ranks | use_local_synchronization
never: drop_last; join(); /ranks? (0,2|0 and 2) (left|skipped|is wrong|are wrong)/
limit: 20
"""

import datetime
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


@contextmanager
def suspend_distributed_timeout(
    timeout: datetime.timedelta = datetime.timedelta(hours=3),
) -> Iterator[None]:
    """Lets one rank work for long while the others wait, without their watchdogs biting."""
    group = dist.new_group(backend="gloo", timeout=timeout)  # BUG
    try:
        yield
    finally:
        dist.barrier(group=group)
        dist.destroy_process_group(group)


class Calibrator:
    """Collects one Hessian a layer over all ranks and rounds the weights with it."""

    def __init__(self, layers: int, width: int, rank: int) -> None:
        gen = torch.Generator().manual_seed(0)
        self.weights = [torch.randn(width, width, generator=gen) for _ in range(layers)]
        self.rank, self.width = rank, width

    def hessian(self, layer: int) -> torch.Tensor:
        x = torch.randn(
            16, self.width, generator=torch.Generator().manual_seed(10 * layer + self.rank)
        )
        total = x.T @ x
        dist.all_reduce(total)
        return total

    def quantize(self, layer: int) -> None:
        scale = self.hessian(layer).diag().sqrt().mean()
        self.weights[layer] = (self.weights[layer] * 8).round() / 8 * scale.sign()


class ShardedCheckpoint:
    def __init__(self, rank: int, world: int, layers_per_shard: int) -> None:
        self.rank, self.world, self.per_shard = rank, world, layers_per_shard
        self.files: dict[int, list[bytes]] = {}

    def writer_of(self, shard: int) -> int:
        return (shard + 1) % self.world

    def compress(self, shard: int, weights: list[torch.Tensor]) -> None:
        self.files[shard] = [w.to(torch.int8).numpy().tobytes() for w in weights]

    def save(self, shard: int, weights: list[torch.Tensor]) -> None:
        writer = self.writer_of(shard)
        participants = range(self.world) if TWIN else (writer,)
        if self.rank in participants:  # WHO
            with suspend_distributed_timeout():  # ENTER
                if self.rank == writer:
                    self.compress(shard, weights)


def oneshot(rank: int, layers: int = 8, layers_per_shard: int = 4) -> None:
    calibrator = Calibrator(layers, 8, rank)
    checkpoint = ShardedCheckpoint(rank, dist.get_world_size(), layers_per_shard)
    for layer in range(layers):
        calibrator.quantize(layer)
        if (layer + 1) % layers_per_shard == 0:
            shard = layer // layers_per_shard
            checkpoint.save(shard, calibrator.weights[shard * layers_per_shard : layer + 1])
    dist.barrier()
    print(f"rank {rank} wrote {sorted(checkpoint.files)}", flush=True)


oneshot(init())
dist.destroy_process_group()
