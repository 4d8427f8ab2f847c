"""Tokens go to the ranks of their experts by messages, in bfloat16; one rank never cast its layer.

ranks: 4
expect: p2p_mismatch
suspects: 1
status: diverged
cause: BUG; rank 1 is at one end of every message; bfloat16
fix: rank 1 send and await bfloat16
never: drop_last; never sent; wrong peer; number of tokens; capacity
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

WIDTH = 8
TOKENS = 12
BATCHES = 3


class ExpertLayer(torch.nn.Module):
    """One expert a rank; every rank routes its own tokens."""

    def __init__(self, rank: int, world: int) -> None:
        super().__init__()
        self.rank, self.world = rank, world
        self.gate = torch.nn.Linear(WIDTH, world, bias=False)
        self.expert = torch.nn.Linear(WIDTH, WIDTH, bias=False)

    def assign(self, batch: int) -> list[int]:
        """How many tokens every rank sends to every other: the same plan on all of them."""
        return [3 + (batch + shift) % 2 for shift in range(self.world)]

    def dispatch(self, tokens: torch.Tensor, batch: int) -> dict[int, torch.Tensor]:
        counts = self.assign(batch)
        works, taken = [], {}
        for shift in range(1, self.world):
            source = (self.rank - shift) % self.world
            taken[source] = tokens.new_empty(counts[shift], WIDTH)
            works.append(dist.irecv(taken[source], src=source))
        for shift in range(1, self.world):
            target = (self.rank + shift) % self.world
            part = tokens[: counts[shift]].contiguous()
            works.append(dist.isend(part, dst=target))  # BUG
        for work in works:
            assert work is not None
            work.wait()
        return taken

    def forward(self, hidden: torch.Tensor, batch: int) -> torch.Tensor:
        tokens = hidden.to(self.gate.weight.dtype)
        taken = self.dispatch(tokens, batch)
        outputs = [self.expert(part) for part in taken.values()]
        return torch.cat(outputs).float().mean()


def load(rank: int, world: int) -> ExpertLayer:
    """The layer as it was saved: an expert that was never trained before stays as it is made."""
    torch.manual_seed(rank)
    layer = ExpertLayer(rank, world)
    fresh = rank == 1
    if not fresh or TWIN:
        layer.to(torch.bfloat16)
    return layer


def main() -> None:
    rank = init()
    layer = load(rank, dist.get_world_size())
    for batch in range(BATCHES):
        hidden = torch.randn(TOKENS, WIDTH)
        loss = layer(hidden, batch).detach()
        dist.all_reduce(loss)
    print("loss", float(loss))
    dist.destroy_process_group()


main()
