"""Rank 0 alone is told that its machine will be taken away, and leaves the loop to save.

It averages the weights for that: as many as the gradients, so the others' next bucket takes them
without a word, and the others wait for rank 0 later.

ranks: 4
expect: role_mismatch missing_call
suspects: 0
status: diverged hung
cause: rank 0; left | leaves | stop* | break | early | earlier | ended | exit* | signal |
  interrupt* | SIGTERM | preempt*; gradient* | backward | bucket*
fix: all ranks | every rank | all_reduce | broadcast | agree* | together | flag | same
never: drop_last; wrong root; different dtype
"""

import os
import signal

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()


class Preemption:
    def __init__(self) -> None:
        self.asked = False
        signal.signal(signal.SIGTERM, self.note)

    def note(self, *_: object) -> None:
        self.asked = True

    def pending(self) -> bool:
        if not TWIN:
            return self.asked
        flag = torch.tensor([int(self.asked)])
        dist.all_reduce(flag, op=dist.ReduceOp.MAX)
        return bool(flag)


def train(preemption: Preemption, steps: int) -> int:
    for step in range(steps):
        if (rank, step) == (0, 5):
            os.kill(os.getpid(), signal.SIGTERM)  # as the scheduler does
        if preemption.pending():
            return step
        model(torch.randn(6, 8)).square().mean().backward()  # BUG
    return steps


def final_weights() -> torch.Tensor:
    flat: torch.Tensor = model.module.weight.detach().flatten().clone()
    dist.all_reduce(flat)  # BUG
    return flat


model = DistributedDataParallel(torch.nn.Linear(8, 1, bias=False))
done = train(Preemption(), steps=9)
print("checkpoint after", done, "steps of", len(final_weights()), flush=True)
