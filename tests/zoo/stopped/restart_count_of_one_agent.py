"""Rank 2 counts its restarts from zero, and waits for a key of the store that nobody sets.

ranks: 4
expect: missing_call
suspects: 2
status: hung
cause: rank 2; BUG | SAVE; WAIT | all_reduce
fix: store | key | rank 2 | BUG
never: drop_last; join(); new_group
limit: 16
"""

import os
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from tests.zoo.common import TWIN, init


def as_started_by_its_agent(rank: int) -> None:
    """What an elastic agent puts into the environment; each host's agent counts for itself."""
    fresh_host = rank == 2 and not TWIN
    os.environ["TORCHELASTIC_RESTART_COUNT"] = "0" if fresh_host else "1"


class CheckpointBoard:
    """Where the first rank says which checkpoints are whole."""

    def __init__(self, rank: int) -> None:
        attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
        self.store = dist.PrefixStore(  # type: ignore[attr-defined]
            f"checkpoints/attempt{attempt}", distributed_c10d._get_default_store()
        )
        self.rank = rank

    def publish(self, step: int) -> None:
        self.store.set(f"step{step}", f"/checkpoints/{step}")

    def await_whole(self, step: int) -> str:
        self.store.wait([f"step{step}"], timedelta(seconds=60))  # BUG
        return self.store.get(f"step{step}").decode()


class Saver:
    def __init__(self, rank: int, every: int) -> None:
        self.rank, self.every = rank, every
        self.board = CheckpointBoard(rank)
        self.whole: list[str] = []

    def after(self, step: int) -> None:
        if step % self.every == self.every - 1:
            if self.rank == 0:
                self.board.publish(step)
            self.whole.append(self.board.await_whole(step))  # SAVE


def main() -> None:
    rank = init()
    as_started_by_its_agent(rank)
    torch.manual_seed(0)
    weight = torch.zeros(16)
    saver = Saver(rank, every=4)
    generator = torch.Generator().manual_seed(rank)
    for step in range(12):
        gradient = weight - torch.rand(16, generator=generator)
        dist.all_reduce(gradient)  # WAIT
        weight -= 0.1 * gradient / dist.get_world_size()
        saver.after(step)
    print(f"rank {rank}: {saver.whole}")
    dist.barrier()
    dist.destroy_process_group()


main()
