r"""Rank 0 rests as soon as the error is small, and leaves before it has told the others so.

ranks: 4
expect: p2p_unmatched
suspects: 0
status: hung
cause: rank 0; BUG; ERROR; SMALL; ranks 1-3; 4 equal rounds; finished
fix: last round
never: network; drop_last; wrong peer
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

ROUNDS = 7


def error_of(estimate: float) -> float:
    total = torch.tensor([estimate])
    dist.reduce(total, dst=0)  # ERROR
    return total.item()


def lead(others: range) -> None:
    for turn in range(ROUNDS):
        error = error_of(0.5**turn)
        if TWIN:
            order(others, error)
        if error < 0.5:  # SMALL
            break
        if not TWIN:
            order(others, error)  # BUG


def order(others: range, error: float) -> None:
    for other in others:
        dist.send(torch.tensor([error]), dst=other)  # BUG


def follow() -> None:
    for turn in range(ROUNDS):
        error_of(0.5**turn)
        error = torch.zeros(1)
        dist.recv(error, src=0)
        if error < 0.5:
            break


if init() == 0:
    lead(range(1, dist.get_world_size()))
else:
    follow()
dist.destroy_process_group()
