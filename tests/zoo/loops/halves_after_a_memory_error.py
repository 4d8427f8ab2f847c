"""A batch that does not fit is done in halves, each with its own reduction; others do it at once.

ranks: 3
expect: op_mismatch
suspects: 1
status: diverged
cause: rank 1; FITS; EXCEPT; while it handled; call 5
fix: after the `try`; RAISES | FITS
never: some ranks may have; uneven; network
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

STEPS, LIMIT = 5, 24


class OutOfMemory(RuntimeError):
    """As an allocator raises it."""


class Trainer:
    """Reduces two gradients in each step."""

    def __init__(self) -> None:
        self.model = torch.nn.Linear(4, 2)

    def backward(self, rows: torch.Tensor) -> None:
        if len(rows) > LIMIT:
            raise OutOfMemory(f"tried to allocate {len(rows)} rows")  # FITS
        self.model(rows).square().mean().backward()
        if not TWIN:
            self.reduce()

    def reduce(self) -> None:
        for parameter in self.model.parameters():
            dist.all_reduce(parameter.grad)

    def step(self, rows: torch.Tensor) -> None:
        self.model.zero_grad()
        try:
            self.backward(rows)
        except OutOfMemory:  # EXCEPT
            for half in rows.chunk(2):
                self.backward(half)
        if TWIN:
            self.reduce()


rank = init()
trainer = Trainer()
for step in range(STEPS):
    trainer.step(torch.ones(32 if (rank, step) == (1, 2) else 8, 4))
dist.broadcast(torch.zeros(3), src=0)  # BUG
dist.destroy_process_group()
