"""Groups are made on first use, by their members alone: rank 3 passes over one, asks for the next.

ranks: 4
expect: group_mismatch
suspects: 3
status: diverged
cause: rank 3; BUG; not in ranks | GUARD
fix: every rank | all ranks | same order
never: drop_last; join(); /ranks? (0,1,2|0-2) (left|skipped|is wrong|are wrong)/
"""

from collections.abc import Iterable, Sequence

import torch
import torch.distributed as dist
from torch import nn

from tests.zoo.common import TWIN, init


class GroupCache:
    """Process groups by the ranks in them, made on first use."""

    groups: dict[tuple[int, ...], dist.ProcessGroup]

    def __init__(self, rank: int) -> None:
        self.rank, self.groups = rank, {}

    def get(self, ranks: Iterable[int]) -> dist.ProcessGroup | None:
        ranks = tuple(sorted(set(ranks)))
        if ranks == tuple(range(dist.get_world_size())):
            return dist.group.WORLD
        if self.rank not in ranks and not TWIN:  # GUARD
            return None
        if ranks not in self.groups:
            self.groups[ranks] = dist.new_group(list(ranks))  # BUG
        return self.groups[ranks]


class Reshard:
    """Takes a partial tensor on some ranks to a replicated one on the same."""

    def __init__(self, cache: GroupCache, ranks: Sequence[int]) -> None:
        self.cache, self.ranks = cache, ranks

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        group = self.cache.get(self.ranks)
        if self.cache.rank in self.ranks:
            dist.all_reduce(tensor, group=group)
            tensor /= len(self.ranks)
        return tensor


class Trainer:
    def __init__(self, rank: int) -> None:
        torch.manual_seed(rank)
        self.rank = rank
        self.cache = GroupCache(rank)
        self.dense, self.experts, self.table = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.reshards = {
            "dense": Reshard(self.cache, range(dist.get_world_size())),
            "experts": Reshard(self.cache, [0, 1, 2]),  # rank 3 has the head alone
            "table": Reshard(self.cache, [0, 3]),  # tied: first and last stage
        }
        self.optimizer = torch.optim.SGD(
            [*self.dense.parameters(), *self.experts.parameters(), *self.table.parameters()],
            lr=0.01,
        )

    def step(self, x: torch.Tensor, frozen: bool) -> torch.Tensor:
        loss = self.table(torch.relu(self.experts(torch.relu(self.dense(x))))).square().mean()
        loss.backward()
        self.reshards["dense"](self.dense.weight.grad)  # type: ignore[arg-type]
        if not frozen:
            self.reshards["experts"](self.experts.weight.grad)  # type: ignore[arg-type]
            self.reshards["table"](self.table.weight.grad)  # type: ignore[arg-type]
            self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()  # type: ignore[no-any-return]


def main() -> None:
    rank = init()
    trainer = Trainer(rank)
    for step in range(6):
        torch.manual_seed(step)
        loss = trainer.step(torch.randn(4, 8), frozen=step < 3)  # warm-up of the router
        dist.all_reduce(loss)
    dist.destroy_process_group()


main()
