"""Rank 1 waits for an answer that is never sent: its host sets the switch to "False", a true word.

ranks: 4
expect: p2p_unmatched deadlock
suspects: none
status: hung
cause: rank 1; BUG; wants_ack; never come
fix: both ends
never: drop_last; join(); /ranks? (2|3) alone/
"""

import os

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

# What the start script of each host exports; that of rank 1's says it outright.
EXPORTS: dict[int, dict[str, str]] = {1: {"CKPT_STREAM_ACK": "" if TWIN else "False"}}
LARGE = 64


def environment(rank: int) -> dict[str, str]:
    return {**os.environ, **EXPORTS.get(rank, {})}


class ShardStream:
    """Brings the shards of all ranks to rank 0; large ones may be acknowledged."""

    def __init__(self, rank: int, env: dict[str, str]) -> None:
        self.rank = rank
        self.wants_ack = bool(env.get("CKPT_STREAM_ACK"))

    def push(self, shard: torch.Tensor) -> None:
        dist.send(torch.tensor([shard.numel()]), 0)
        dist.send(shard, 0)
        if self.wants_ack and shard.numel() > LARGE:
            ack = torch.zeros(1, dtype=torch.int64)
            dist.recv(ack, 0)  # BUG

    def pull(self) -> list[torch.Tensor]:
        shards = []
        for source in range(1, dist.get_world_size()):
            size = torch.zeros(1, dtype=torch.int64)
            dist.recv(size, source)
            shard = torch.empty(int(size))
            dist.recv(shard, source)
            if self.wants_ack and shard.numel() > LARGE:
                dist.send(size, source)
            shards.append(shard)
        return shards

    def save(self, shard: torch.Tensor) -> None:
        if self.rank == 0:
            self.pull()
        else:
            self.push(shard)
        dist.barrier()


def main() -> None:
    rank = init()
    torch.manual_seed(0)
    weight = torch.randn(48)
    momentum: torch.Tensor | None = None
    stream = ShardStream(rank, environment(rank))
    for step in range(9):
        gradient = weight * 0.1 + rank
        dist.all_reduce(gradient)
        if step >= 4:  # plain SGD during the warm-up
            momentum = gradient if momentum is None else 0.9 * momentum + gradient
        weight -= 0.01 * (gradient if momentum is None else momentum)
        if step % 3 == 2:
            stream.save(weight if momentum is None else torch.cat([weight, momentum]))
    dist.destroy_process_group()


main()
