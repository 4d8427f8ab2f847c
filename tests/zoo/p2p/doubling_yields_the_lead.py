"""Recursive doubling by hand: the lower of two ranks sends first; a slow one begins to yield.

ranks: 4
expect: deadlock
suspects: none
status: hung
cause: BUG; rank 2; rank 3; each other
fix: send | order | batch_isend_irecv
never: drop_last; wrong peer; dtype mismatch; rank 3 is to blame; lost a connection
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

STEPS = 6
LENGTHS = {2: [300, 320, 310, 700, 290, 300]}
"""Tokens of the batches of a rank; elsewhere 300 each."""
SLOW = 600


class Doubling:
    """An all-reduce out of exchanges with partners at growing distance."""

    def __init__(self, rank: int, world: int) -> None:
        self.rank, self.world = rank, world
        self.late = False

    def leads(self, partner: int) -> bool:
        """Whether this rank sends first."""
        if self.late and not TWIN:
            return False  # let the other go ahead
        return self.rank < partner

    def swap(self, mine: torch.Tensor, partner: int) -> torch.Tensor:
        theirs = torch.empty_like(mine)
        if self.leads(partner):
            dist.send(mine, dst=partner)
            dist.recv(theirs, src=partner)
        else:
            dist.recv(theirs, src=partner)  # BUG
            dist.send(mine, dst=partner)
        return theirs

    def sum(self, values: torch.Tensor) -> torch.Tensor:
        total, distance = values.clone(), 1
        while distance < self.world:
            total += self.swap(total, self.rank ^ distance)
            distance *= 2
        return total


def batch_of(rank: int, step: int) -> torch.Tensor:
    length = LENGTHS.get(rank, [300] * STEPS)[step]
    return torch.linspace(0.0, 1.0, length)


def main() -> None:
    rank = init()
    reducer = Doubling(rank, dist.get_world_size())
    weights = torch.ones(4)
    for step in range(STEPS):
        batch = batch_of(rank, step)
        reducer.late = len(batch) > SLOW
        gradient = weights * batch.mean() * 0.1
        weights -= reducer.sum(gradient) / reducer.world
    print("weights", float(weights.sum()))
    dist.destroy_process_group()


main()
