"""A thread sums counters after every 64 samples of its own rank: rank 2 comes to it a step sooner.

The lock keeps thread and training apart within a process, not across them. Counters and flat
gradient are alike in shape and dtype: nothing fails, and the sums are of one and the other.

ranks: 3
expect: role_mismatch
severity: warning
suspects: 2
status: aligned
cause: rank 2; BUG; all_reduce
fix: every rank | all ranks | each rank | same order | same step | agree | group of its own
never: deadlock; rank 2 stopped; rank 0 is to blame
"""

import queue
import threading
from collections.abc import Iterator

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

STEPS, REPORT_AFTER = 16, 64


class Reporter(threading.Thread):
    """Sums what it is handed over the job, beside the training."""

    def __init__(self, lock: threading.Lock) -> None:
        super().__init__(name="reporter", daemon=True)
        self.lock = lock
        self.jobs: queue.Queue[torch.Tensor | None] = queue.Queue(maxsize=1)
        self.history: list[list[float]] = []
        self.problem: Exception | None = None

    def run(self) -> None:
        while (counters := self.jobs.get()) is not None:
            try:
                with self.lock:
                    dist.all_reduce(counters)  # BUG
                self.history.append(counters.tolist())
            except RuntimeError as problem:
                self.problem = problem
            finally:
                self.jobs.task_done()

    def submit(self, counters: torch.Tensor) -> None:
        self.jobs.put(counters.clone())
        self.jobs.join()
        if self.problem is not None:
            raise self.problem

    def close(self) -> None:
        self.jobs.put(None)
        self.join()


class Progress:
    """Samples, tokens and seconds since the last report."""

    def __init__(self, reporter: Reporter) -> None:
        self.reporter = reporter
        self.counters = torch.zeros(3)
        self.steps = 0

    def count(self, batch: torch.Tensor) -> None:
        self.counters += torch.tensor([len(batch), batch.numel(), 0.1])
        self.steps += 1
        due = self.steps % 8 == 0 if TWIN else self.counters[0] >= REPORT_AFTER
        if due:
            self.reporter.submit(self.counters)  # BUG
            self.counters.zero_()


class Trainer:
    def __init__(self, lock: threading.Lock) -> None:
        self.lock = lock
        self.model = torch.nn.Linear(2, 1)

    def step(self, batch: torch.Tensor) -> None:
        self.model.zero_grad()
        self.model(batch).square().mean().backward()
        flat = torch.cat([p.grad.flatten() for p in self.model.parameters() if p.grad is not None])
        with self.lock:
            dist.all_reduce(flat)
        flat /= dist.get_world_size()
        with torch.no_grad():
            self.model.weight.sub_(0.01 * flat[:2])
            self.model.bias.sub_(0.01 * flat[2:])


def batches(rank: int) -> Iterator[torch.Tensor]:
    for step in range(STEPS):
        yield torch.full((16 if (rank, step) == (2, 4) else 8, 2), 0.1 * step)


def main() -> None:
    rank = init()
    torch.manual_seed(0)
    lock = threading.Lock()
    reporter = Reporter(lock)
    reporter.start()
    trainer, progress = Trainer(lock), Progress(reporter)
    for batch in batches(rank):
        progress.count(batch)
        trainer.step(batch)
    reporter.close()
    print(reporter.history, flush=True)
    dist.destroy_process_group()


main()
