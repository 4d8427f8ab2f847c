"""Gossip tags its messages with the version of the model; one rank resumed from an older snapshot.

ranks: 4
expect: p2p_unmatched
suspects: 3
status: hung
cause: BUG; rank 3 alone; tag 8
fix: rank 3 pass tag 8
never: drop_last; wrong peer; dtype mismatch; rank 2 is to blame; lost a connection
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

ROUNDS = 4
SNAPSHOTS = {0: [6, 7, 8], 1: [6, 7, 8], 2: [6, 7, 8], 3: [6, 7]}
"""Versions on the disk of each rank; the job was killed while the last ones were written."""


class Replica:
    """A model of its own, that is averaged with one other in each round."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.version = 0
        self.weights = torch.zeros(5)

    def resume(self) -> None:
        newest = torch.tensor(max(SNAPSHOTS[self.rank]))
        if TWIN:
            dist.all_reduce(newest, op=dist.ReduceOp.MIN)
        self.version = int(newest)
        self.weights = torch.full((5,), 0.1 * self.version)

    def step(self) -> None:
        self.weights = self.weights - 0.05 * (self.weights - float(self.rank))

    def gossip(self, turn: int) -> None:
        """With the other end of an edge of the square; no message of another version is meant."""
        partner = self.rank ^ (1 << turn % 2)
        theirs = torch.empty_like(self.weights)
        works = [
            dist.isend(self.weights, dst=partner, tag=self.version),  # BUG
            dist.irecv(theirs, src=partner, tag=self.version),  # BUG
        ]
        for work in works:
            assert work is not None
            work.wait()
        self.weights = (self.weights + theirs) / 2
        self.version += 1


def main() -> None:
    rank = init()
    replica = Replica(rank)
    replica.resume()
    for turn in range(ROUNDS):
        replica.step()
        replica.gossip(turn)
    spread = replica.weights.clone()
    dist.all_reduce(spread, op=dist.ReduceOp.MAX)
    print("spread", float((spread - replica.weights).max()))
    dist.destroy_process_group()


main()
