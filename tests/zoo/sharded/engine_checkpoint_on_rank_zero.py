"""An engine's save_checkpoint() is called on rank 0 alone, and the method gathers the shards.

It writes on rank 0 only, by itself: the guard around the call is what is wrong.

ranks: 3
expect: op_mismatch shape_mismatch
suspects: 0
status: diverged
cause: rank 0; GUARD; SAVE | save_checkpoint; BUG
fix: save_checkpoint | SAVE | GUARD; every rank
never: drop_last; join(); ambiguous; do not show which; WRITER; decide together
"""

import tempfile
from pathlib import Path

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


class Engine:
    """Holds a shard of the optimizer's state, as a library for large models does."""

    def __init__(self, size: int) -> None:
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.weight, self.moment = torch.ones(size), torch.zeros(size // self.world)

    def backward_and_step(self, gradient: torch.Tensor) -> None:
        mine = torch.empty_like(self.moment)
        dist.reduce_scatter_tensor(mine, gradient)
        self.moment = 0.9 * self.moment + mine
        shard = self.weight.chunk(self.world)[self.rank] - 0.01 * self.moment
        dist.all_gather_into_tensor(self.weight, shard)

    def save_checkpoint(self, folder: str, tag: str) -> None:
        whole = torch.empty(len(self.weight))
        dist.all_gather_into_tensor(whole, self.moment)  # BUG
        if self.rank == 0:  # WRITER
            torch.save({"weight": self.weight, "moment": whole}, Path(folder) / f"{tag}.pt")
        dist.barrier()


def main(rank: int) -> None:
    engine = Engine(size=12)
    with tempfile.TemporaryDirectory() as folder:
        for step in range(1, 9):
            engine.backward_and_step(torch.ones(12) * step)
            if step % 4 == 0 and (rank == 0 or TWIN):  # GUARD
                engine.save_checkpoint(folder, f"step{step}")  # SAVE
    dist.destroy_process_group()


main(init())
