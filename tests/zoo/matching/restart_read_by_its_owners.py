"""Rank 2 owns no element and leaves out the scatter of the restart data.

The barrier at the end of the load is its next call; the root and rank 1 are in the scatter.

ranks: 3
expect: op_mismatch missing_call
suspects: 2
status: diverged
cause: rank 2; scatter; BUG | barrier; OWNED | owned
fix: every rank | all ranks | each rank | even
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

VARIABLES = ("density", "momentum", "energy")


class Mesh:
    """Elements dealt out in blocks of at most three."""

    block = 3

    def __init__(self, elements: int) -> None:
        self.elements = elements

    def owned(self, rank: int) -> int:
        return max(0, min(self.block, self.elements - rank * self.block))


def read_restart(name: str, elements: int) -> torch.Tensor:
    """What the root finds in the file."""
    return torch.linspace(0.0, 1.0, elements) + VARIABLES.index(name)


def split(values: torch.Tensor, mesh: Mesh, world: int) -> list[torch.Tensor]:
    padded = torch.zeros(world * mesh.block)
    padded[: values.numel()] = values
    return list(padded.chunk(world))


def load_restart(mesh: Mesh, rank: int) -> dict[str, torch.Tensor]:
    state = {}
    for name in VARIABLES:
        local = torch.zeros(mesh.block)
        if rank == 0:
            parts = split(read_restart(name, mesh.elements), mesh, dist.get_world_size())
            dist.scatter(local, parts, src=0)
        elif TWIN or mesh.owned(rank) > 0:  # OWNED
            dist.scatter(local, None, src=0)
        state[name] = local[: mesh.owned(rank)]
    return state


def main() -> None:
    rank = init()
    mesh = Mesh(elements=5)
    state = load_restart(mesh, rank)
    dist.barrier()  # BUG
    mass = state["density"].sum().reshape(1)
    dist.all_reduce(mass)
    if rank == 0:
        print(f"mass {mass.item():.3f}", flush=True)


main()
dist.destroy_process_group()
