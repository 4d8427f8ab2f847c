"""SIGTERM reaches rank 1 alone, and its handler leaves by sys.exit(0), as if all was done.

ranks: 3
expect: missing_call
suspects: 1
status: hung
cause: rank 1; BUG; STEP; sys.exit | SystemExit | SIGTERM | signal handler
fix: every rank | all ranks | together | agree* | same step | same number | flag | handler |
    signal* | SIGTERM | exit*
never: /ranks? (0,2|0 and 2) (skipped|are wrong|are to blame|got SIGTERM)/;
    /rank 0 (skipped|is wrong|is to blame|got SIGTERM)/
"""

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


class Preemption:
    """Chains onto whatever handled SIGTERM before."""

    def __init__(self, on_signal: Callable[[], None], leave: bool) -> None:
        self.requested, self.on_signal, self.leave = False, on_signal, leave
        self.previous = signal.signal(signal.SIGTERM, self.handle)

    def handle(self, signum: int, frame: FrameType | None) -> None:
        self.requested = True
        self.on_signal()
        if callable(self.previous):
            self.previous(signum, frame)
        if self.leave:
            sys.exit(0)  # BUG


class Trainer:
    def __init__(self, rank: int) -> None:
        self.rank, self.step = rank, 0
        self.weight = torch.zeros(4)
        self.saved: list[int] = []
        self.preemption = Preemption(self.note_restart, leave=not TWIN)

    def note_restart(self) -> None:
        self.saved.append(self.step)

    def train_batch(self) -> None:
        grad = torch.full((4,), float(self.rank + self.step))
        dist.all_reduce(grad)  # STEP
        self.weight -= 0.05 * grad

    def any_requested(self) -> bool:
        flag = torch.tensor([int(self.preemption.requested)])
        dist.all_reduce(flag, op=dist.ReduceOp.MAX)
        return bool(flag)

    def fit(self, steps: int, scheduler: Callable[[int, int], None]) -> None:
        while self.step < steps:
            scheduler(self.rank, self.step)
            self.train_batch()
            self.step += 1
            if self.any_requested():
                dist.barrier()
                print(self.rank, "stops after step", self.step)
                break


def scheduler(rank: int, step: int) -> None:
    """The cluster takes back the spot machine of rank 1."""
    if (rank, step) == (1, 5):
        os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    rank = init()
    trainer = Trainer(rank)
    trainer.fit(steps=9, scheduler=scheduler)
    dist.destroy_process_group()


main()
