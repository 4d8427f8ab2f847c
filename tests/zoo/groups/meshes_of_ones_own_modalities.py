"""Rank 3, which has no part in the vision tower, does not build the vision mesh with the others.

ranks: 4
expect: group_mismatch
suspects: 3
status: diverged
cause: rank 3; BUG; SKIP
fix: every rank | all ranks | each rank | same order
never: drop_last; join(); /ranks? (0-2|0,1,2) (left|skipped|(is|are) wrong|(is|are) to blame)/
"""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from tests.zoo.common import TWIN, init

LAYOUT = {
    "vision": (torch.tensor([0, 1, 2]), ("dp",)),
    "language": (torch.tensor([[0, 1], [2, 3]]), ("pp", "tp")),
}
DISAGGREGATED = not TWIN  # let a rank materialize nothing but the modalities that it hosts


class ModalParallelPlan:
    def __init__(self, layout: dict[str, tuple[torch.Tensor, tuple[str, ...]]]) -> None:
        self.layout = layout
        self.meshes: dict[str, DeviceMesh] = {}

    def materialize(self, rank: int) -> None:
        for modality, (grid, names) in self.layout.items():
            if DISAGGREGATED and rank not in grid.flatten().tolist():  # SKIP
                continue
            self.meshes[modality] = DeviceMesh("cpu", grid, mesh_dim_names=names)  # BUG

    def group(self, modality: str, dim: str, rank: int) -> dist.ProcessGroup | None:
        hosts = self.layout[modality][0].flatten().tolist()
        return self.meshes[modality].get_group(dim) if rank in hosts else None


def check_loaders(rank: int) -> None:
    """The ranks compare their shares of the data before the towers are built."""
    samples = torch.tensor([64.0 + rank % 2])
    dist.all_reduce(samples)
    shards = [torch.zeros(1) for _ in range(dist.get_world_size())]
    dist.all_gather(shards, torch.tensor([float(rank)]))


def train_step(plan: ModalParallelPlan, rank: int) -> None:
    vision = plan.group("vision", "dp", rank)
    features = torch.full((4,), float(rank))
    if vision is not None:
        dist.all_reduce(features, group=vision)
    dist.all_reduce(features, group=plan.group("language", "tp", rank))
    dist.all_reduce(features, op=dist.ReduceOp.MAX, group=plan.group("language", "pp", rank))


def main() -> None:
    rank = init()
    check_loaders(rank)
    plan = ModalParallelPlan(LAYOUT)
    plan.materialize(rank)
    for _ in range(3):
        train_step(plan, rank)
    dist.barrier()
    dist.destroy_process_group()


main()
