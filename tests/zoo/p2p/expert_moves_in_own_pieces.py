"""Each rank cuts its own list of messages, sends first: two wait for their sends first.

ranks: 4
expect: deadlock p2p_unmatched
suspects: none
status: hung
cause: BUG; /ranks? (0,1|0-1|0 and 1)|rank 0/; isend | send* | message*; each other
fix: order | recv* | irecv | receive* | same | both
never: drop_last; join(); /ranks? (2|3) (left|skipped|is to blame)/
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

EXPERTS, CHUNK, DIM = 16, 4, 6

PLANS = {  # the round of the balancer -> (expert, from, to)
    1: [(2, 0, 1), (5, 1, 2), (9, 2, 0), (13, 3, 1)],
    3: [(1, 1, 3), (6, 0, 2), (8, 3, 0)],
    5: [
        (0, 0, 1),
        (1, 0, 1),
        (2, 0, 1),
        (3, 0, 1),
        (8, 1, 0),
        (9, 1, 0),
        (10, 1, 0),
        (11, 1, 0),
        (12, 3, 2),
        (15, 2, 3),
    ],
}


class Balancer:
    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.weights = torch.full((EXPERTS, DIM), float(rank))
        self.incoming = torch.zeros(EXPERTS, DIM)
        self.load = torch.zeros(EXPERTS)

    def operations(self, plan: list[tuple[int, int, int]]) -> list[tuple[int, dist.P2POp]]:
        sends = [
            (e, dist.P2POp(dist.isend, self.weights[e], to))
            for e, source, to in plan
            if source == self.rank
        ]
        recvs = [
            (e, dist.P2POp(dist.irecv, self.incoming[e], source))
            for e, source, to in plan
            if to == self.rank
        ]
        return sends + recvs

    def pieces(self, operations: list[tuple[int, dist.P2POp]]) -> list[list[dist.P2POp]]:
        """Too many operations at once exhaust the network: a few at a time."""
        pieces: dict[int, list[dist.P2POp]] = {}
        for number, (expert, operation) in enumerate(operations):
            pieces.setdefault((expert if TWIN else number) // CHUNK, []).append(operation)
        return [pieces[key] for key in sorted(pieces)]

    def move(self, plan: list[tuple[int, int, int]]) -> None:
        for piece in self.pieces(self.operations(plan)):
            for work in dist.batch_isend_irecv(piece):  # BUG
                work.wait()
        for expert, _, to in plan:
            if to == self.rank:
                self.weights[expert] = self.incoming[expert]

    def forward(self, step: int) -> torch.Tensor:
        tokens = torch.randint(0, EXPERTS, (32,), generator=torch.Generator().manual_seed(step))
        self.load += tokens.bincount(minlength=EXPERTS)
        out = self.weights[tokens].sum(0)
        dist.all_reduce(out)
        return out


def main() -> None:
    balancer = Balancer(init())
    for step in range(8):
        balancer.forward(step)
        if step in PLANS:
            dist.all_reduce(balancer.load)
            balancer.move(PLANS[step])
            balancer.load.zero_()
    dist.destroy_process_group()


main()
