"""Rank 4 is alone on its node and returns at once; the leaders of the other nodes wait for it.

ranks: 5
expect: deadlock missing_call
suspects: 4
status: hung
cause: rank 4; BUG; ALONE | return | peers
fix: every rank | all ranks | rank 4 | every leader | all leaders | ALONE
never: drop_last; join(); find_unused_parameters; /ranks? (1|3|1,3) (skipped|left out)/
"""

import torch
import torch.distributed as dist
from torch import nn

from tests.zoo.common import TWIN, init

NODES = [[0, 1], [2, 3], [4]]
FUSION_THRESHOLD = 64  # smaller buckets go flat, larger ones by way of the node leaders


class HierarchicalReducer:
    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.world = list(range(dist.get_world_size()))
        for members in NODES:
            group = dist.new_group(members)
            if rank in members:
                self.node, self.intra = members, group
        self.inter = dist.new_group([members[0] for members in NODES])

    def _by_leaders(self, flat: torch.Tensor) -> torch.Tensor:
        peers = self.world if TWIN else self.node
        if len(peers) == 1:  # ALONE
            return flat  # nobody to reduce with
        leader = self.node[0]
        dist.reduce(flat, dst=leader, group=self.intra)
        if self.rank == leader:
            dist.all_reduce(flat, group=self.inter)  # BUG
        dist.broadcast(flat, src=leader, group=self.intra)
        return flat

    def reduce_bucket(self, grads: list[torch.Tensor]) -> None:
        flat = torch.cat([grad.reshape(-1) for grad in grads])
        if flat.numel() < FUSION_THRESHOLD:
            dist.all_reduce(flat)
        else:
            flat = self._by_leaders(flat)
        flat /= len(self.world)
        sizes = [grad.numel() for grad in grads]
        for grad, part in zip(grads, flat.split(sizes), strict=True):  # type: ignore[no-untyped-call]
            grad.copy_(part.view_as(grad))


def train(
    model: nn.Module, reducer: HierarchicalReducer, steps: int, unfrozen: list[nn.Linear]
) -> None:
    params = [param for layer in unfrozen for param in layer.parameters()]
    optimizer = torch.optim.SGD(params, lr=0.01)
    for step in range(steps):
        model.zero_grad()
        model(torch.full((2, 8), float(step + reducer.rank))).mean().backward()
        reducer.reduce_bucket([param.grad for param in params])  # type: ignore[misc]
        optimizer.step()
    loss = torch.tensor([float(steps)])
    dist.all_reduce(loss)


rank = init()
torch.manual_seed(0)
backbone, head = nn.Linear(8, 8), nn.Linear(8, 2)
model = nn.Sequential(backbone, nn.Tanh(), head)
reducer = HierarchicalReducer(rank)
train(model, reducer, steps=4, unfrozen=[head])  # the head alone first
train(model, reducer, steps=3, unfrozen=[backbone, head])
dist.destroy_process_group()
