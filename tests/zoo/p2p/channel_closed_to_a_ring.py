"""A channel of two is closed to a ring: a halo meets the columns that are for the other side.

ranks: 2
expect: p2p_mismatch
suspects: none
status: diverged
cause: BUG; EASTWARD; size* | elements | numel | bytes | shape* | count*; WESTWARD |
    other order* | another order | cross* | swap*
fix: tag* | order* | cross* | swap*
never: /ranks? (0|1) (is|are) (wrong|to blame|guilty|at fault)/; /suspects?:? ranks? (0|1)/
"""

import time

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

ROWS, COLUMNS = 4, 10
UPWIND, DOWNWIND = 3, 1  # columns that the scheme reads from the west and from the east
EASTBOUND, WESTBOUND = (1, 2) if TWIN else (0, 0)


class Partition:
    """A ring or a row of subdomains along the x axis."""

    def __init__(self, rank: int, size: int, topology: str) -> None:
        self.rank, self.size, self.periodic = rank, size, topology == "periodic"

    def neighbour(self, offset: int) -> int | None:
        other = self.rank + offset
        if self.periodic:
            return other % self.size
        return other if 0 <= other < self.size else None


class Field:
    def __init__(self, rank: int) -> None:
        generator = torch.Generator().manual_seed(rank)
        self.substeps = 1 + 8 * rank  # shallow water takes more of them
        self.interior = torch.rand(ROWS, COLUMNS, generator=generator)
        self.west_halo = torch.zeros(ROWS, UPWIND)
        self.east_halo = torch.zeros(ROWS, DOWNWIND)

    def fill_halos(self, partition: Partition) -> None:
        west, east = partition.neighbour(-1), partition.neighbour(+1)
        edges, sends = [], []
        if east is not None:
            edges.append(self.interior[:, -UPWIND:].contiguous())
            sends.append(dist.isend(edges[-1], dst=east, tag=EASTBOUND))  # EASTWARD
        if west is not None:
            edges.append(self.interior[:, :DOWNWIND].contiguous())
            sends.append(dist.isend(edges[-1], dst=west, tag=WESTBOUND))  # WESTWARD
        if east is not None:
            dist.recv(self.east_halo, src=east, tag=WESTBOUND)  # BUG
        if west is not None:
            dist.recv(self.west_halo, src=west, tag=EASTBOUND)
        for send in sends:
            send.wait()  # type: ignore[union-attr]

    def advance(self, dt: float) -> None:
        padded = torch.cat([self.west_halo, self.interior, self.east_halo], dim=1)
        slope = padded[:, UPWIND : UPWIND + COLUMNS] - padded[:, UPWIND - 1 : UPWIND - 1 + COLUMNS]
        for _ in range(self.substeps):
            self.interior = self.interior - dt / self.substeps * slope
            time.sleep(0.03)


def time_step(field: Field) -> float:
    speed = field.interior.abs().max().reshape(1)
    dist.all_reduce(speed, op=dist.ReduceOp.MAX)
    return 0.1 / max(float(speed), 1.0)


def simulate(field: Field, partition: Partition, steps: int) -> None:
    for _ in range(steps):
        field.fill_halos(partition)
        field.advance(time_step(field))


rank = init()
tracer = Field(rank)
simulate(tracer, Partition(rank, dist.get_world_size(), "bounded"), steps=4)  # spin-up
simulate(tracer, Partition(rank, dist.get_world_size(), "periodic"), steps=4)
dist.destroy_process_group()
