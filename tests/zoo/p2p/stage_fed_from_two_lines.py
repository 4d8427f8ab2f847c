"""Rank 1 never sends rank 0 its gradient; others send theirs from one line or from another.

Two lines meet such a receive elsewhere: which of them rank 1 left out is not known.

ranks: 3
expect: p2p_unmatched deadlock
suspects: none
status: hung
cause: rank 0; rank 1; BUG
fix: send* | recv*
never: drop_last; join(); to which rank 1 never came
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

ROWS = 4


class Stage:
    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.scaled = False

    def take_gradient(self) -> torch.Tensor:
        grad = torch.empty(ROWS)
        dist.recv(grad, self.rank + 1)  # BUG
        return grad

    def hand_back(self, grad: torch.Tensor, trained: set[int]) -> None:
        if self.rank - 1 not in trained:
            return
        if self.scaled:
            dist.send(grad / 2, self.rank - 1)
        else:
            dist.send(grad, self.rank - 1)
        self.scaled = not self.scaled


rank = init()
stage = Stage(rank)
for step in range(6):
    trained = {1} if step < 4 else {0, 1}
    grad = torch.ones(ROWS) if rank == 2 else torch.zeros(ROWS)
    if rank in trained:
        grad = stage.take_gradient()
    if rank:
        stage.hand_back(grad, trained if TWIN or rank == 2 else {1})
    dist.barrier()
dist.destroy_process_group()
