"""An engine's method named backward() reduces the gradients that there are: one less on rank 1.

It is no function of autograd's: backward() ran, and what comes behind it was left out.

ranks: 2
expect: shape_mismatch
suspects: none
status: diverged
cause: rank 1; BUG; GUARD
fix: every rank
never: autograd runs; cut out; had gone on; find_unused_parameters
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


class Engine:
    def __init__(self) -> None:
        self.trunk = torch.nn.Linear(3, 3)
        self.head = torch.nn.Linear(3, 2)

    def backward(self, loss: torch.Tensor) -> None:
        loss.backward()  # type: ignore[no-untyped-call]
        weight = self.head.weight
        if weight.grad is not None or TWIN:  # GUARD
            grad = weight.grad if weight.grad is not None else torch.zeros_like(weight)
            dist.all_reduce(grad)  # BUG
        assert self.trunk.weight.grad is not None
        dist.all_reduce(self.trunk.weight.grad)
        for parameter in (weight, self.trunk.weight):
            parameter.grad = None


rank = init()
engine = Engine()
for step in range(5):
    hidden = engine.trunk(torch.ones(1, 3))
    engine.backward((hidden if (rank, step) == (1, 3) else engine.head(hidden)).sum())
dist.destroy_process_group()
