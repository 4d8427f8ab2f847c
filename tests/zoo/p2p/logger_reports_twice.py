"""A rank reports a spike of its gradient at once, and then again with the report of the step.

Rank 0 takes one report of each rank a step. From then on it reads the reports of rank 2 a step
late, and takes the last of them for its summary.

ranks: 3
expect: p2p_mismatch
suspects: 2
status: diverged
cause: BUG; rank 2; no other rank ever was
fix: leave out
never: drop_last; wrong peer; rank 1 is; lost a connection
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

STEPS = 7
SPIKES = {(2, 4)}


class Reporter:
    """Sends what a rank has to tell to rank 0, without waiting for it."""

    def __init__(self) -> None:
        self.underway: list[tuple[dist.Work | None, torch.Tensor]] = []
        self.history: list[torch.Tensor] = []

    def alert(self, step: int, norm: float) -> None:
        note = torch.tensor([float(step), norm, 1.0])
        self.history.append(note)
        if not TWIN:
            self.underway.append((dist.isend(note, dst=0), note))  # BUG

    def report(self, step: int, loss: float, norm: float) -> None:
        note = torch.tensor([float(step), loss, norm])
        self.history.append(note)
        self.underway.append((dist.isend(note, dst=0), note))

    def close(self) -> None:
        """The summary: lowest and highest of everything."""
        seen = torch.stack(self.history)
        summary = torch.cat([seen.min(0).values, seen.max(0).values])
        dist.send(summary, dst=0)
        for work, _ in self.underway:
            assert work is not None
            work.wait()


class Collector:
    """What rank 0 does with the reports."""

    def __init__(self, world: int) -> None:
        self.sources = range(1, world)
        self.rows: list[torch.Tensor] = []

    def collect(self) -> None:
        for source in self.sources:
            note = torch.empty(3)
            dist.recv(note, src=source)
            self.rows.append(note)

    def close(self) -> None:
        for source in self.sources:
            summary = torch.empty(6)
            dist.recv(summary, src=source)
            print("rank", source, summary.tolist())


def main() -> None:
    rank = init()
    weights = torch.ones(5)
    reporter, collector = Reporter(), Collector(dist.get_world_size())
    for step in range(STEPS):
        gradient = weights * 0.1 * (rank + 1) * (100.0 if (rank, step) in SPIKES else 1.0)
        norm = float(gradient.norm())
        if norm > 10.0:
            reporter.alert(step, norm)
        gradient = gradient.clamp(-1.0, 1.0)
        dist.all_reduce(gradient)
        weights -= 0.01 * gradient
        if rank == 0:
            collector.collect()
        else:
            reporter.report(step, float(weights.sum()), norm)
    (collector if rank == 0 else reporter).close()
    dist.barrier()
    dist.destroy_process_group()


main()
