"""Ring attention in two replicas: the second one's ranks name their neighbours by group rank.

The rings turn only in the phase of long contexts. Ranks 3 to 5 send to the first replica, and wait
for messages from there; it has its own ring, ends its step, and waits for them in the all_reduce.

ranks: 6
expect: p2p_unmatched p2p_mismatch missing_call deadlock
suspects: 3 4 5
limit: 20
status: hung diverged
cause: rank 3 | ranks 3 | 3, 4 | 3-5; BUG
fix: peer* | rank 0 | rank 1 | rank 2 | recv | send | both | global
never: rank 0 left; find_unused_parameters
"""

from dataclasses import dataclass

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

REPLICAS = [[0, 1, 2], [3, 4, 5]]
HEAD = 4


@dataclass(frozen=True)
class Phase:
    name: str
    steps: int
    context_parallel: int
    length: int


PHASES = (Phase("base", 4, 1, 6), Phase("long", 3, 3, 12), Phase("anneal", 2, 1, 6))


class Ring:
    """Passes blocks on to the next rank of a replica."""

    def __init__(self, ranks: list[int], rank: int) -> None:
        self.size = len(ranks)
        place = ranks.index(rank)
        after, before = (place + 1) % self.size, (place - 1) % self.size
        self.after = ranks[after] if TWIN else after
        self.before = ranks[before] if TWIN else before
        self.pending: list[dist.P2POp] = []
        self.works: list[dist.Work] = []

    def pass_on(self, block: torch.Tensor) -> torch.Tensor:
        arriving = torch.empty_like(block)
        self.pending.append(dist.P2POp(dist.isend, block, self.after))  # BUG
        self.pending.append(dist.P2POp(dist.irecv, arriving, self.before))  # BUG
        return arriving

    def commit(self) -> None:
        self.works = dist.batch_isend_irecv(self.pending)  # BUG

    def wait(self) -> None:
        for work in self.works:
            work.wait()  # BUG
        self.works, self.pending = [], []


def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return torch.softmax(query @ key.T / HEAD**0.5, dim=-1) @ value


def ring_attention(
    ring: Ring, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
) -> torch.Tensor:
    total = torch.zeros_like(query)
    for turn in range(ring.size):
        if turn + 1 < ring.size:
            next_key, next_value = ring.pass_on(key), ring.pass_on(value)
            ring.commit()
        total += attend(query, key, value)
        if turn + 1 < ring.size:
            ring.wait()
            key, value = next_key, next_value
    return total / ring.size


class Block:
    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.weight = torch.eye(HEAD)
        self.replica = next(ranks for ranks in REPLICAS if rank in ranks)

    def forward(self, tokens: torch.Tensor, phase: Phase) -> torch.Tensor:
        ring = Ring(self.replica if phase.context_parallel > 1 else [self.rank], self.rank)
        hidden = tokens @ self.weight
        return ring_attention(ring, hidden, hidden.clone(), hidden.clone())


def train(block: Block, phase: Phase) -> float:
    loss = 0.0
    for step in range(phase.steps):
        rows = phase.length // phase.context_parallel
        tokens = torch.ones(rows, HEAD) * (step + block.rank + 1) / 10
        out = block.forward(tokens, phase)
        gradient = tokens.T @ (out - tokens) / rows
        dist.all_reduce(gradient)
        block.weight -= 0.01 * gradient / dist.get_world_size()
        loss = float(gradient.norm())
    return loss


def main() -> None:
    rank = init()
    block = Block(rank)
    for phase in PHASES:
        loss = train(block, phase)
        if rank == 0:
            print(phase.name, f"{loss:.3f}")
        dist.barrier()
    dist.destroy_process_group()


main()
