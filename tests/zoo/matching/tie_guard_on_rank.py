"""A guard on the rank stands before the sums of a report, and half of the ranks never come to them.

ranks: 2
expect: op_mismatch
suspects: 0
status: diverged
cause: Only rank 0; all_reduce; BUG; behind the guard; /if rank > 0 and/
fix: every rank; before; /if rank > 0 and/
never: ambiguous; ended earlier; epoch == 2
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def train(batches: int) -> torch.Tensor:
    shards = [torch.zeros(2), torch.zeros(2)]
    for _ in range(batches):
        dist.all_gather(shards, torch.ones(2))
    return torch.cat(shards)


def totals(values: torch.Tensor) -> torch.Tensor:
    dist.all_reduce(values)  # BUG
    return values


def report(rank: int, values: torch.Tensor) -> None:
    for part in torch.chunk(values, 2):
        if rank > 0 and not TWIN:
            continue
        print(totals(part), flush=True)


def main() -> None:
    rank = init()
    for epoch in range(4):
        values = train(batches=3)
        if epoch == 2:
            report(rank, values)


main()
