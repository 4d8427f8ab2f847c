"""Rank 1 leaves out a norm, and is in the next forward, which its statement of backward runs.

ranks: 3
expect: shape_mismatch
suspects: 1
status: diverged
cause: rank 1; BUG; NORM; CLIP
fix: every rank
never: ran again; checkpointed
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


class Mixer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        mixed: torch.Tensor = self.inner(rows).mean(0)
        total = mixed.detach().clone()
        dist.all_reduce(total)  # BUG
        return mixed * total


def clip(limit: float) -> None:
    norm = torch.cat([p.grad.flatten() for p in mixer.parameters() if p.grad is not None])
    if norm.norm() < limit:  # CLIP
        dist.all_reduce(norm)  # NORM


rank = init()
mixer = Mixer()
for step in range(6):
    mixer.zero_grad()
    mixer(torch.ones(6, 4)).sum().backward()
    clip(0.0 if (rank, step) == (1, 4) and not TWIN else 1e6)
