"""A reader has a record less in one step, by a list that both have; rank 1 forgot it.

By the calls rank 0 left its round: but a condition of its own led it there, which may be right.

ranks: 2
expect: deadlock missing_call p2p_unmatched
status: hung diverged
cause: rank 0; if n in missing; BUG; which of them was meant
fix: every round
never: drop_last; nothing in the source leads rank 1; the network
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

MISSING: dict[int, set[int]] = {} if TWIN else {6: {1}}


def feed(step: int) -> None:
    missing = MISSING.get(step, set())
    for n in range(2):
        if n in missing:
            continue
        dist.send(torch.tensor([float(n), step]), 1)  # BUG


def learn() -> None:
    record = torch.zeros(2)
    for _ in range(2):
        dist.recv(record, 0)  # BUG


rank, loss = init(), torch.zeros(1)
for step in range(8):
    if rank == 0:
        feed(step)
    else:
        learn()
    dist.all_reduce(loss)
