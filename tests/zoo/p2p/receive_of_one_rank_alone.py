"""Of four ranks rank 1 alone makes a receive, to which nobody sends; the others are in a barrier.

All three that wait for rank 1 wait because of that line.

ranks: 4
expect: p2p_unmatched missing_call deadlock
suspects: 1
status: hung
cause: rank 1; recv; BUG; never sent;
    `elif settings.warm_start:`
fix: BUG; recv; send
never: ranks 0,2-3 skipped; fix what raised; drop_last; join(); extra barrier
"""

from dataclasses import dataclass

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


@dataclass
class Settings:
    """What a host is started with."""

    warm_start: bool = False
    subscribers: tuple[int, ...] = ()


def share_weights(rank: int, settings: Settings, weights: torch.Tensor) -> None:
    """Rank 0 hands its weights to those that asked for them."""
    if rank == 0:
        for peer in settings.subscribers:
            dist.send(weights, dst=peer)
    elif settings.warm_start:
        dist.recv(weights, src=0)  # BUG


def train(weights: torch.Tensor) -> None:
    for _ in range(4):
        gradient = weights * 0.1
        dist.all_reduce(gradient)
        weights -= gradient / dist.get_world_size()


rank = init()
weights = torch.full((8,), float(rank))
dist.broadcast(weights, src=0)
train(weights)
share_weights(rank, Settings(warm_start=rank == 1 and not TWIN), weights)
dist.barrier()
train(weights)
dist.destroy_process_group()
