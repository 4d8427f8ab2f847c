"""Rank 2 counts one device on its node, the others two, so it asks for other process groups.

ranks: 3
expect: group_mismatch
suspects: 2
status: diverged
cause: rank 2; BUG
fix: every rank | all ranks | same
never: drop_last; join(); uneven inputs; use_local_synchronization
"""

import os

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def slurm_environment(rank: int) -> None:
    """Two nodes: ranks 0 and 1 on the first, rank 2 alone on the second."""
    os.environ["SLURM_NODEID"] = str(rank // 2)
    os.environ["CUDA_VISIBLE_DEVICES"] = "0,1" if rank < 2 or TWIN else "0"


def device_count() -> int:
    return len([device for device in os.environ["CUDA_VISIBLE_DEVICES"].split(",") if device])


class Topology:
    """Shards within a node, replicas across nodes."""

    def __init__(self, rank: int, world: int) -> None:
        self.rank, self.world, self.per_node = rank, world, device_count()
        self.intra = self.build(self.node_ranks())
        self.leaders = dist.new_group([members[0] for members in self.node_ranks()])

    def node_ranks(self) -> list[list[int]]:
        return [
            list(range(first, min(first + self.per_node, self.world)))
            for first in range(0, self.world, self.per_node)
        ]

    def build(self, layout: list[list[int]]) -> dist.ProcessGroup | None:
        mine = None
        for members in layout:
            group = dist.new_group(members)  # BUG
            if self.rank in members:
                mine = group
        return mine

    @property
    def is_leader(self) -> bool:
        return self.rank % self.per_node == 0


def hierarchical_mean(tensor: torch.Tensor, topology: Topology) -> torch.Tensor:
    dist.all_reduce(tensor, group=topology.intra)
    if topology.is_leader:
        dist.all_reduce(tensor, group=topology.leaders)
    source = topology.rank - topology.rank % topology.per_node
    dist.broadcast(tensor, src=source, group=topology.intra)
    return tensor / topology.world


def main() -> None:
    rank = init()
    slurm_environment(rank)
    torch.manual_seed(4)
    model = torch.nn.Linear(3, 1)
    for param in model.parameters():
        dist.broadcast(param.data, src=0)
    dist.barrier()
    topology = Topology(rank, dist.get_world_size())
    data = torch.randn(6, 4, 3, generator=torch.Generator().manual_seed(rank))
    for batch in data:
        model.zero_grad()
        model(batch).square().mean().backward()
        for param in model.parameters():
            param.data -= 0.1 * hierarchical_mean(param.grad, topology)  # type: ignore[arg-type]
    dist.barrier()
    dist.destroy_process_group()


main()
