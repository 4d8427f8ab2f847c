"""A pipeline clips its gradients by their norm over all stages, but a frozen stage returns at once.

It goes on to the next batch, and awaits it from a stage that is in the all_reduce of the norm.

ranks: 3
expect: deadlock
suspects: none
status: hung
cause: rank 1; returned before; BUG; if not gradients
fix: `gradients`; /zeros|empty/; MIN
never: tag; order of messages; batch_isend_irecv
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


class Stage:
    def __init__(self, rank: int, last: int) -> None:
        self.rank, self.last = rank, last
        self.layer = torch.nn.Linear(3, 3)
        self.layer.requires_grad_(rank != 1 or TWIN)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        if self.rank > 0:
            dist.recv(batch, src=self.rank - 1)  # BATCH
        result: torch.Tensor = self.layer(batch)
        if self.rank < self.last:
            dist.send(result.detach(), dst=self.rank + 1)
        return result

    def clip(self) -> None:
        gradients = [one.grad for one in self.layer.parameters() if one.grad is not None]
        if not gradients:
            return
        norm = torch.stack([torch.zeros(()), *(one.norm() for one in gradients)]).square().sum()
        dist.all_reduce(norm)  # BUG
        for one in gradients:
            one.mul_(1 / (1 + norm.sqrt()))


rank = init()
stage = Stage(rank, dist.get_world_size() - 1)
for _ in range(3):
    result = stage.forward(torch.ones(2, 3))
    if result.requires_grad:
        result.square().mean().backward()  # type: ignore[no-untyped-call]
    stage.clip()
