"""All means go through one function; rank 2 asks for the second one first: they are mixed up.

ranks: 3
expect: role_mismatch
severity: warning
suspects: 2
status: aligned
cause: rank 2; order; all_reduce; BUG
fix: same order
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def mean(value: float) -> float:
    total = torch.tensor([value])
    dist.all_reduce(total)
    return float(total) / dist.get_world_size()


class Meters:
    def __init__(self) -> None:
        self.seen = {"perplexity": 12.0, "tokens": 640.0}

    def perplexity(self) -> float:
        return mean(self.seen["perplexity"])  # BUG

    def tokens(self) -> float:
        return mean(self.seen["tokens"])  # BUG


rank = init()
meters = Meters()
for step in range(4):
    if rank == 2 and step > 1 and not TWIN:
        line = f"{meters.tokens()} tokens, perplexity {meters.perplexity()}"
    else:
        line = f"perplexity {meters.perplexity()}, {meters.tokens()} tokens"
    print(line)
