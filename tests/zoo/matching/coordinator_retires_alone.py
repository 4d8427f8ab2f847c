"""Rank 0 tells the others what to do, by lines and functions of its own; once it tells too little.

Its orders come from two lines, and the others take them all at one. The weights of the tasks are
of another size where a task was retired on rank 0 alone: no branch led the ranks apart.

ranks: 3
expect: shape_mismatch
suspects: 0
status: diverged
cause: BUG; TAKES; int64[2]; int64[3]; sizes
fix: broadcast the size from rank 0; every rank
never: /since call \\d+/; above these two lines; other order; pad; drop_last; barrier
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

RETIRE, ROUND, END = range(3)
SIZES = [5, 7, 9]


def score(tasks: list[int], weights: torch.Tensor) -> None:
    total = torch.tensor([float(n) for n in tasks]) @ weights.float()
    dist.all_reduce(total)


def coordinate(rounds: int) -> None:
    tasks = list(SIZES)
    for n in range(rounds):
        if n == rounds - 2:
            if TWIN:
                dist.broadcast(torch.tensor([RETIRE, tasks[-1]]), 0)
            tasks.pop()
        dist.broadcast(torch.tensor([ROUND, n]), 0)
        weights = torch.arange(len(tasks))
        dist.broadcast(weights, 0)  # BUG
        score(tasks, weights)
    dist.broadcast(torch.tensor([END, 0]), 0)


def work() -> None:
    tasks = list(SIZES)
    order = torch.zeros(2, dtype=torch.int64)
    dist.broadcast(order, 0)
    while order[0] != END:
        if order[0] == RETIRE:
            tasks.remove(int(order[1]))
        else:
            weights = torch.zeros(len(tasks), dtype=torch.int64)
            dist.broadcast(weights, 0)  # TAKES
            score(tasks, weights)
        dist.broadcast(order, 0)


if init() == 0:
    coordinate(7)
else:
    work()
