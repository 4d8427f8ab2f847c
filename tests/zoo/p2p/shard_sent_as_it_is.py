"""Ranks send their shards to the writer as objects; one, whose shard is a bare tensor, sends that.

ranks: 4
expect: p2p_mismatch
suspects: 3
status: diverged
cause: BUG; no other rank ever was; send_object_list
fix: send_object_list
never: drop_last; wrong peer; rank 1 is to blame; rank 2 is to blame; lost a connection
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

WRITER = 0
ROWS = 6


class Shard:
    """What a rank holds of the model."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.weight = torch.full((ROWS, 4), float(rank))
        self.frozen = rank == 3
        self.momentum = None if self.frozen else torch.zeros(ROWS, 4)

    def train(self, steps: int) -> None:
        for _ in range(steps):
            gradient = self.weight.mean(0)
            dist.all_reduce(gradient)
            if self.momentum is not None:
                self.momentum = 0.9 * self.momentum + gradient
                self.weight -= 0.01 * self.momentum

    def state(self) -> dict[str, object]:
        state: dict[str, object] = {"rank": self.rank, "weight": self.weight}
        if self.momentum is not None:
            state["momentum"] = self.momentum
        return state


class Checkpoint:
    """One file, written by one rank, that is made of the shards of all."""

    def __init__(self, rank: int, world: int) -> None:
        self.rank, self.world = rank, world
        self.parts: list[object] = []

    def save(self, shard: Shard, step: int) -> None:
        if self.rank == WRITER:
            self.parts = [shard.state()]
            for source in range(self.world):
                if source != WRITER:
                    self.parts.append(self.take(source))
            print("wrote step", step, "with", len(self.parts), "parts")
        elif shard.frozen and not TWIN:
            # nothing but the weight: no need to pickle it
            dist.send(shard.weight, dst=WRITER)  # BUG
        else:
            dist.send_object_list([shard.state()], dst=WRITER)
        dist.barrier()

    def take(self, source: int) -> object:
        part: list[object] = [None]
        dist.recv_object_list(part, src=source)
        return part[0]


def main() -> None:
    rank = init()
    shard = Shard(rank)
    checkpoint = Checkpoint(rank, dist.get_world_size())
    for step in (5, 10):
        shard.train(5)
        checkpoint.save(shard, step)
    dist.destroy_process_group()


main()
