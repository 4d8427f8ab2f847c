"""Stage 2 drops a microbatch that overflows in its half precision; stage 3 still counts on it.

ranks: 4
expect: deadlock
suspects: 2
status: hung
cause: BUG; handed 15 of them on; rank 3; by what was in it
fix: for each message that it gets
never: rank 3 skipped; rank 1 skipped; network; rank 0 left
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

MICROBATCHES = 4
HIDDEN = 16
STEPS = 6


class Stage:
    """One slice of the model; stage 2 runs in half precision."""

    def __init__(self, rank: int, world: int) -> None:
        self.prev = rank - 1 if rank > 0 else None
        self.next = rank + 1 if rank < world - 1 else None
        self.dtype = torch.float16 if rank == 2 else torch.float32
        self.scale = 2.0

    def layer(self, x: torch.Tensor) -> torch.Tensor:
        return (x.to(self.dtype) * self.scale).float()

    def forward(self, batch: list[torch.Tensor]) -> list[torch.Tensor]:
        saved = []
        for microbatch in range(MICROBATCHES):
            if self.prev is None:
                x = batch[microbatch]
            else:
                x = torch.empty(HIDDEN)
                dist.recv(x, src=self.prev)
            y = self.layer(x)
            if not torch.isfinite(y).all() and not TWIN:
                continue
            if self.next is not None:
                dist.send(y, dst=self.next)  # BUG
            saved.append(y)
        return saved

    def backward(self, saved: list[torch.Tensor]) -> torch.Tensor:
        total = torch.zeros(HIDDEN)
        for y in saved:
            grad = torch.ones_like(y)
            if self.next is not None:
                dist.recv(grad, src=self.next)  # BUG
            total += grad
            if self.prev is not None:
                dist.send(grad * self.scale, dst=self.prev)
        return total


def load(step: int) -> list[torch.Tensor]:
    """The third microbatch of step 4 has an outlier."""
    batch = [torch.full((HIDDEN,), float(step)) for _ in range(MICROBATCHES)]
    if step == 4:
        batch[2] = batch[2] * 5000.0
    return batch


def main() -> None:
    rank = init()
    stage = Stage(rank, dist.get_world_size())
    for step in range(1, STEPS + 1):
        saved = stage.forward(load(step) if rank == 0 else [])
        grad = stage.backward(saved)
        norm = grad.pow(2).sum()
        dist.all_reduce(norm)
        stage.scale -= 1e-6 * float(norm > 0)
    dist.destroy_process_group()


main()
