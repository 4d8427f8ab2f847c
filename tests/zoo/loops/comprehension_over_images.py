"""Rank 1 has no boxes in one of its images, and gathers one list less: in a comprehension.

ranks: 3
expect: op_mismatch
suspects: 1
status: diverged
cause: rank 1; BUG; fewer turns; for scores in self.scores
fix: same length
never: ranks 0,2 had fewer; a branch skipped
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()


class Recall:
    def __init__(self) -> None:
        self.scores: list[torch.Tensor] = []

    def update(self, scores: torch.Tensor) -> None:
        if len(scores) or TWIN:
            self.scores.append(scores)

    def gather(self, scores: torch.Tensor) -> torch.Tensor:
        counts = [torch.zeros(1) for _ in range(dist.get_world_size())]
        dist.all_gather(counts, torch.full((1,), float(len(scores))))  # BUG
        return torch.cat(counts)

    def compute(self) -> torch.Tensor:
        return sum((self.gather(scores) for scores in self.scores), torch.zeros(3))


def export(epoch: int) -> None:
    dist.broadcast(torch.full((2,), float(epoch)), src=0)  # BUG


for epoch in range(3):
    recall = Recall()
    for image in range(4):
        recall.update(torch.ones(0 if (rank, epoch, image) == (1, 2, 3) else 1))
    recall.compute()
    export(epoch)
