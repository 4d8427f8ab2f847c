"""Once a strip does not send an edge that stands still, though its neighbour waits for every edge.

Rank 2 leaves out one send to rank 3 in the second phase; from then on rank 3 is served an edge of a
later step each time, unnoticed until the sends of the phase run out.

ranks: 4
expect: p2p_unmatched p2p_mismatch missing_call deadlock
suspects: 2
status: diverged hung
cause: rank 2; rank 3; BUG; send | isend | message* | recv | irecv
fix: send | isend | message* | edge | recv | irecv | matching
never: rank 1 left out; rank 3 left out
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

CELLS, STEPS, PHASES = 6, 8, 3
HELD = {(2, 1, 3)}
"""Rank, phase and step at which a thermostat holds the last cell of the strip."""


class Edge:
    """One end of a strip, and the strip beyond it."""

    def __init__(self, peer: int, index: int) -> None:
        self.peer, self.index = peer, index
        self.told = torch.full((1,), float("nan"))
        self.ghost = torch.zeros(1)

    def outgoing(self, field: torch.Tensor) -> list[dist.P2POp]:
        value = field[self.index].reshape(1).clone()
        if not TWIN and bool((value - self.told).abs() < 1e-6):
            return []  # BUG
        self.told = value
        return [dist.P2POp(dist.isend, value, self.peer)]  # BUG

    def incoming(self) -> list[dist.P2POp]:
        return [dist.P2POp(dist.irecv, self.ghost, self.peer)]


class Strip:
    def __init__(self, rank: int, world: int) -> None:
        self.rank = rank
        self.field = torch.arange(CELLS, dtype=torch.float32) + CELLS * rank
        self.left = Edge(rank - 1, 0) if rank > 0 else None
        self.right = Edge(rank + 1, -1) if rank < world - 1 else None

    def exchange(self) -> None:
        ops = []
        for edge in (self.left, self.right):
            if edge is not None:
                ops += edge.outgoing(self.field)
                ops += edge.incoming()
        for work in dist.batch_isend_irecv(ops):  # BUG
            work.wait()

    def advance(self, phase: int, step: int) -> None:
        low = self.left.ghost if self.left else self.field[:1]
        high = self.right.ghost if self.right else self.field[-1:]
        padded = torch.cat([low, self.field, high])
        change = 0.1 * (padded[2:] - 2 * self.field + padded[:-2]) + 1.0
        if (self.rank, phase, step) in HELD:
            change[-1] = 0.0
        self.field = self.field + change

    def heat(self) -> float:
        total = self.field.sum()
        dist.all_reduce(total)
        return float(total)


def simulate(rank: int, world: int) -> list[float]:
    strip, history = Strip(rank, world), []
    for phase in range(PHASES):
        for step in range(STEPS):
            strip.exchange()
            strip.advance(phase, step)
        history.append(strip.heat())
    return history


rank = init()
print(simulate(rank, dist.get_world_size()))
dist.destroy_process_group()
