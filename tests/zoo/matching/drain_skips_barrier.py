"""Saves run in a pool, and each epoch waits for them, then for all ranks; rank 2's save fails.

Its trainer logs the exception and goes on to the first collective of the next epoch, while the
others stay in monitored_barrier.

ranks: 4
expect: missing_call op_mismatch raised
suspects: 2
status: diverged hung
cause: rank 2; BUG | monitored_barrier | barrier; exception | raise* | except | error | skip* |
  never | did not | OSError | swallow* | caught | missing | next
fix: every rank | all ranks | finally | agree* | before; BUG | barrier | monitored_barrier |
  exception | error | failure | finally
never: drop_last; join; unused parameter*
limit: 14
"""

from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

from tests.zoo.common import TWIN, init

rank = init()


class Saver:
    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(1)
        self.pending: list[Future[None]] = []

    def write(self, epoch: int) -> None:
        if (rank, epoch) == (2, 1):
            raise OSError(28, "No space left on device")

    def submit(self, epoch: int) -> None:
        self.pending.append(self.pool.submit(self.write, epoch))

    def results(self) -> None:
        pending, self.pending = self.pending, []
        for future in pending:
            future.result()

    def drain(self) -> None:
        try:
            self.results()
        finally:
            if TWIN:
                dist.monitored_barrier(timeout=timedelta(seconds=30))
        if not TWIN:
            dist.monitored_barrier(timeout=timedelta(seconds=3), wait_all_ranks=True)  # BUG


def run_epoch() -> None:
    for _ in range(2):
        model.zero_grad()
        model(torch.randn(4, 3)).square().mean().backward()
        for parameter in model.parameters():
            assert parameter.grad is not None
            dist.all_reduce(parameter.grad)


model, saver = nn.Linear(3, 2), Saver()
for epoch in range(3):
    run_epoch()
    saver.submit(epoch)
    try:
        saver.drain()
    except OSError as error:
        print("checkpoint not written:", error, flush=True)
dist.barrier()
saver.pool.shutdown()
