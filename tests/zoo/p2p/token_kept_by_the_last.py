r"""The last of a ring hands nothing back of a token that is too large; the first waits for it.

ranks: 4
expect: deadlock p2p_unmatched
suspects: 3
status: hung
cause: rank 3; BUG; send
fix: rank 3 | every round
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
        dist.send(token, dst=rank + 1)


def last(rank: int) -> None:
    token = torch.zeros(1)
    for _ in range(7):
        dist.recv(token, src=rank - 1)
        if token < 5 or TWIN:
            hand_on(token, 0)  # BUG


rank, world = init(), dist.get_world_size()
if not rank:
    first(world - 1)
elif rank + 1 < world:
    between(rank)
else:
    last(rank)
dist.destroy_process_group()
