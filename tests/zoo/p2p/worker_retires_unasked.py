"""Workers take tasks from rank 0 until it says stop; one retires by itself when it has done enough.

ranks: 4
expect: deadlock
suspects: 3
status: hung
cause: BUG; rank 3; had called recv; ranks 0-2
fix: rank 3
never: drop_last; rank 1 is to blame; rank 2 is to blame; lost a connection; dtype mismatch
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

STOP = -1
TASKS = [40, 30, 90, 20, 40, 110, 30, 50, 80, 20, 60, 120]
"""Tokens of the prompts to score, in the order in which they are dealt out."""
LIMIT = 250
"""Tokens after which the cache of a worker is as good as full."""


class Dispatcher:
    """Rank 0: deals tasks out in turn, a round to all workers, and gathers their scores."""

    def __init__(self, world: int) -> None:
        self.workers = range(1, world)

    def run(self) -> list[float]:
        scores = []
        for start in range(0, len(TASKS), len(self.workers)):
            part = TASKS[start : start + len(self.workers)]
            for worker, length in zip(self.workers, part, strict=False):
                self.order(worker, start, length)
            for worker, _ in zip(self.workers, part, strict=False):
                score = torch.empty(1)
                dist.recv(score, src=worker)
                scores.append(float(score))
        for worker in self.workers:
            self.order(worker, STOP, 0)
        return scores

    def order(self, worker: int, name: int, length: int) -> None:
        dist.send(torch.tensor([name, length]), dst=worker)


class Worker:
    """Scores what it is given."""

    def __init__(self) -> None:
        self.tokens = 0
        self.done = 0

    def score(self, length: int) -> torch.Tensor:
        self.tokens += length
        self.done += 1
        return torch.linspace(0.0, 1.0, length).mean().reshape(1)

    def run(self) -> None:
        while True:
            if self.tokens > LIMIT and not TWIN:
                print("cache is full")
                break
            order = torch.empty(2, dtype=torch.int64)
            dist.recv(order, src=0)
            if order[0] == STOP:
                break
            dist.send(self.score(int(order[1])), dst=0)


def main() -> None:
    rank = init()
    done = 0
    if rank == 0:
        Dispatcher(dist.get_world_size()).run()
    else:
        worker = Worker()
        worker.run()
        done = worker.done
    counts = [torch.zeros(1) for _ in range(dist.get_world_size())]
    dist.all_gather(counts, torch.tensor([float(done)]))  # BUG
    print("done", [int(count) for count in counts])
    dist.destroy_process_group()


main()
