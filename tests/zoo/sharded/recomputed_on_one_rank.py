"""A long input is checkpointed on rank 1: its forward, and what that gathers, runs again.

ranks: 3
expect: op_mismatch shape_mismatch
suspects: 1
status: diverged
cause: rank 1; BUG; LONG; ran again within; RAN
fix: on every rank or on none
never: unused; drop_last
"""

import torch
import torch.distributed as dist
from torch.utils.checkpoint import checkpoint

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


def loss_of(rows: torch.Tensor) -> torch.Tensor:
    if len(rows) > 8 and not TWIN:  # LONG
        out: torch.Tensor = checkpoint(mixer, rows, use_reentrant=False)
    else:
        out = mixer(rows)
    return out.sum()


rank = init()
mixer = Mixer()
for step in range(6):
    rows = torch.ones(9 if (rank, step) == (1, 4) else 6, 4)
    loss = loss_of(rows)
    torch.autograd.backward(loss)  # RAN
    norm = torch.cat([p.grad.flatten() for p in mixer.parameters() if p.grad is not None])
    dist.all_reduce(norm)
