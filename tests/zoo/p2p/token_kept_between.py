r"""A ring's third rank hands on nothing where its token is too large; the others wait for it.

ranks: 4
expect: deadlock p2p_unmatched
suspects: 2
status: hung
cause: rank 2; BUG; send
fix: rank 2 | every round
never: drop_last; do not show which
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def hand_on(token: torch.Tensor, to: int) -> None:
    dist.send(token, dst=to)


def first(last: int) -> None:
    token = torch.zeros(1)
    for _ in range(7):
        dist.send(token + 1, dst=1)
        dist.recv(token, src=last)


def between(rank: int) -> None:
    token = torch.zeros(1)
    for _ in range(7):
        dist.recv(token, src=rank - 1)
        if rank == 1 or token < 5 or TWIN:
            hand_on(token, rank + 1)  # BUG


def last(rank: int) -> None:
    token = torch.zeros(1)
    for _ in range(7):
        dist.recv(token, src=rank - 1)
        hand_on(token, 0)


rank, world = init(), dist.get_world_size()
if not rank:
    first(world - 1)
elif rank + 1 < world:
    between(rank)
else:
    last(rank)
dist.destroy_process_group()
