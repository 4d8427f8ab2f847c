r"""Blocks of a ring smooth their edges until each finds itself smooth, which one does too early.

How often they do differs from frame to frame, and till then it was the same on all of them.

ranks: 4
expect: deadlock p2p_unmatched
suspects: 2
status: hung
cause: rank 2; BUG; TOTAL; ENOUGH; 3 rounds before; more often; ranks 0-1,3
fix: decide together
never: network; drop_last; rank 0 alone; rank 1 alone; rank 3 alone
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

SMOOTH = 0.1


class Block:
    def __init__(self, rank: int, world: int) -> None:
        self.right, self.left = (rank + 1) % world, (rank - 1) % world
        self.edge = torch.zeros(1)

    def exchange(self) -> None:
        theirs = torch.empty(1)
        works = dist.batch_isend_irecv([
            dist.P2POp(dist.isend, self.edge.clone(), self.right),
            dist.P2POp(dist.irecv, theirs, self.left),
        ])  # fmt: skip
        for work in works:
            work.wait()
        self.edge /= 2


def smooth(block: Block) -> None:
    while True:
        block.exchange()  # BUG
        if block.edge.item() < SMOOTH:  # ENOUGH
            return


def main() -> None:
    rank = init()
    block = Block(rank, dist.get_world_size())
    for roughness in (1.0, 3.0, 1.0, 4.0, 1.0):
        is_flat = rank == 2 and roughness == 4.0 and not TWIN
        block.edge = torch.tensor([roughness / 8 if is_flat else roughness])
        smooth(block)
        dist.all_reduce(block.edge)  # TOTAL
    dist.destroy_process_group()


main()
