"""LayerDrop draws from a seed per rank: rank 2 skips a layer whose sharded weights others gather.

ranks: 4
expect: op_mismatch
suspects: 2
status: diverged
cause: rank 2; BUG | LAYER; layerdrop | continue | DROP
fix: every rank | all ranks | same seed | same layers
never: drop_last; join(); /ranks? (0,1,3|0-1,3|0, 1 and 3) (left|skipped|are wrong)/
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

WIDTH, DEPTH, STEPS = 16, 5, 12


class ShardedBlock:
    """A layer whose weight lies in equal parts on all ranks and is whole only while in use."""

    def __init__(self, index: int, rank: int, world: int) -> None:
        self.rank, self.world = rank, world
        full = torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(index)) * 0.2
        self.shard = full.flatten().chunk(world)[rank].clone()
        self.weight: torch.Tensor = None  # type: ignore[assignment]

    def fetch(self) -> None:
        parts = [torch.empty_like(self.shard) for _ in range(self.world)]
        dist.all_gather(parts, self.shard)  # BUG
        self.weight = torch.cat(parts).view(WIDTH, WIDTH).requires_grad_()

    def __call__(self, hidden: torch.Tensor) -> torch.Tensor:
        self.fetch()
        return hidden + torch.tanh(hidden @ self.weight)

    def reduce_gradient(self, lr: float) -> None:
        grad = self.weight.grad.flatten()  # type: ignore[union-attr]
        dist.all_reduce(grad)
        self.shard -= lr * grad.chunk(self.world)[self.rank] / self.world
        self.weight = None  # type: ignore[assignment]


class Encoder:
    def __init__(self, rank: int, world: int, layerdrop: float, seed: int) -> None:
        self.layers = [ShardedBlock(i, rank, world) for i in range(DEPTH)]
        self.layerdrop = layerdrop
        self.training = True
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, hidden: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            probability = torch.rand(1, generator=self.generator).item()
            if self.training and probability < self.layerdrop:  # DROP
                continue
            hidden = layer(hidden)  # LAYER
        return hidden

    def step(self, lr: float) -> None:
        for layer in reversed(self.layers):
            if layer.weight is not None:
                layer.reduce_gradient(lr)


def set_seed(seed: int, rank: int, device_specific: bool) -> int:
    """As in everyone's utils: augmentation must differ between the ranks."""
    if device_specific:
        seed += rank
    torch.manual_seed(seed)
    return seed


def main(rank: int, world: int) -> None:
    seed = set_seed(SEED, rank, device_specific=not TWIN)
    encoder = Encoder(rank, world, layerdrop=0.05, seed=seed)
    data = torch.Generator().manual_seed(100 + rank)
    for step in range(STEPS):
        features = torch.randn(4, WIDTH, generator=data)
        loss = (encoder(features) - features.roll(1, 0)).pow(2).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        encoder.step(lr=0.05)
        print(f"rank {rank} step {step} loss {loss.item():.4f}", flush=True)
    dist.barrier()


SEED = 348
rank = init()
main(rank, dist.get_world_size())
dist.destroy_process_group()
