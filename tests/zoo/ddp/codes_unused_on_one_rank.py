"""Rank 1 replaces dead codes by its own count of their use; for the others none is dead.

ranks: 3
expect: op_mismatch role_mismatch
suspects: 1
status: diverged
cause: rank 1; BUG | REPLACE; expired | EARLY
fix: every rank | all ranks | all_reduce* | agree* | same decision
never: drop_last; join(); rank 0 alone; find_unused_parameters
"""

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init


class EuclideanCodebook(nn.Module):
    embed: torch.Tensor
    cluster_size: torch.Tensor

    def __init__(self, dim: int, size: int, decay: float = 0.5, threshold: float = 0.6) -> None:
        super().__init__()
        self.decay, self.threshold = decay, threshold
        self.register_buffer("embed", torch.eye(size, dim) * 4)
        self.register_buffer("cluster_size", torch.full((size,), 8.0))

    def sample_vectors(self, x: torch.Tensor, count: int) -> torch.Tensor:
        picked = x[torch.arange(count) % len(x)].clone()
        dist.broadcast(picked, src=0)  # BUG
        return picked

    def replace(self, x: torch.Tensor, expired: torch.Tensor) -> None:
        vectors = self.sample_vectors(x, len(self.embed))
        self.embed[expired] = vectors[expired]
        self.cluster_size[expired] = 8.0

    def expire_codes_(self, x: torch.Tensor) -> None:
        expired = self.cluster_size < self.threshold
        if not expired.any():
            return  # EARLY
        self.replace(x, expired)  # REPLACE

    @torch.no_grad()
    def ema_update(self, x: torch.Tensor, onehot: torch.Tensor) -> None:
        local = onehot.sum(0)
        total = local.clone()
        dist.all_reduce(total)
        sums = onehot.t() @ x
        dist.all_reduce(sums)
        seen = total > 0
        self.embed[seen] += (1 - self.decay) * (sums[seen] / total[seen, None] - self.embed[seen])
        used = total if TWIN else local
        self.cluster_size.mul_(self.decay).add_(used, alpha=1 - self.decay)
        self.expire_codes_(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        index = torch.cdist(x.detach(), self.embed).argmin(-1)
        quantized = self.embed[index].clone()
        if self.training:
            self.ema_update(x.detach(), nn.functional.one_hot(index, len(self.embed)).float())
        return x + (quantized - x).detach()


class VQAutoEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.codebook, self.decoder = (
            nn.Linear(4, 4),
            EuclideanCodebook(4, 4),
            nn.Linear(4, 4),
        )
        nn.init.eye_(self.encoder.weight)
        nn.init.zeros_(self.encoder.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.decoder(self.codebook(self.encoder(x)))  # type: ignore[no-any-return]


def batches(rank: int, steps: int) -> Iterator[torch.Tensor]:
    rng = torch.Generator().manual_seed(rank)
    for step in range(steps):
        kinds = torch.arange(32) % 4
        if rank == 1 and step >= 3:
            kinds = kinds % 3  # from here on its shard holds no sound of the fourth kind
        yield torch.eye(4)[kinds] * 4 + 0.1 * torch.randn(32, 4, generator=rng)


rank = init()
torch.manual_seed(0)
model = DistributedDataParallel(VQAutoEncoder(), broadcast_buffers=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for x in batches(rank, 12):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), x).backward()  # type: ignore[no-untyped-call]
    optimizer.step()
dist.destroy_process_group()
