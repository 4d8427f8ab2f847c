"""Rank 1 has no tokens in step 3 and returns before both all_to_alls; then it raises KeyError.

What it returned lacks the counts that the exchange makes, so the exception follows from the return.

ranks: 3
expect: missing_call
suspects: 1
status: hung diverged
cause: rank 1; EMPTY | LEAVES; all_to_all*; BUG; skipped | did not; KeyError
fix: EMPTY | LEAVES; every rank | all ranks
never: /^fix what/; /^handle/; same number of iterations; drop_last; join()
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

TOKENS = {0: [3, 6, 3, 3, 3], 1: [6, 3, 3, 0, 3], 2: [3, 3, 6, 3, 6]}
"""How many tokens a rank has in a step."""


class Experts:
    """One expert a rank: tokens go there and come back."""

    def __init__(self) -> None:
        self.world = dist.get_world_size()

    def forward(self, tokens: torch.Tensor, stats: dict[str, int]) -> torch.Tensor:
        if len(tokens) == 0 and not TWIN:  # EMPTY
            return tokens  # LEAVES
        sent = [len(tokens) // self.world] * self.world
        counts = torch.empty(self.world, dtype=torch.int64)
        dist.all_to_all_single(counts, torch.tensor(sent))  # BUG
        received = [int(count) for count in counts]
        stats["received"] = sum(received)
        there = torch.empty(sum(received), 2)
        dist.all_to_all_single(there, tokens, received, sent)
        back = torch.empty_like(tokens)
        dist.all_to_all_single(back, there * 2, sent, received)
        return back


def train(rank: int) -> None:
    experts, load = Experts(), 0
    for count in TOKENS[rank]:
        stats: dict[str, int] = {}
        output = experts.forward(torch.ones(count, 2), stats)
        load += stats["received"]
        loss = output.sum().reshape(1)
        dist.all_reduce(loss)
    print("load", load, flush=True)


train(init())
dist.destroy_process_group()
