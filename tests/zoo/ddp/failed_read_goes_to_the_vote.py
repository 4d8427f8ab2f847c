"""A failed read on rank 2 goes straight to the vote on errors; the others still sum gradients.

ranks: 3
expect: shape_mismatch role_mismatch reduce_op_mismatch
suspects: 2
status: diverged
cause: rank 2; BUG; VOTE; HEALTHY | OSError
fix: every rank | all ranks | each rank | before | agree* | vote* | everywhere | dummy | zero*
never: /ranks? (0,1|0-1|0 and 1) (left|skipped|(is|are) (wrong|to blame))/; find_unused_parameters;
    join()
"""

from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

ACCUMULATE = 4
VOTES = ("read", "step") if TWIN else ("step",)


class StepFailed(RuntimeError):
    pass


class MeshReader:
    """Reads one sample per micro-step; a few of the files on rank 2's disk are truncated."""

    def __init__(self, rank: int) -> None:
        self.gen = torch.Generator().manual_seed(rank)
        self.truncated = {9, 19} if rank == 2 else set()

    def read(self, i: int) -> torch.Tensor:
        x = torch.randn(2, 12, generator=self.gen)
        if i in self.truncated:
            raise OSError(f"sample {i}: unexpected end of file")
        return x


class Recipe:
    def __init__(self, rank: int) -> None:
        self.reader = MeshReader(rank)
        model = nn.Sequential(nn.Linear(12, 24), nn.SiLU(), nn.Linear(24, 2))
        self.model = DistributedDataParallel(model)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=1e-3)

    def vote(self, phase: str, error: OSError | None) -> None:
        if phase not in VOTES:
            return
        flag = torch.tensor([float(error is not None)])
        dist.all_reduce(flag, op=dist.ReduceOp.MAX)  # VOTE
        if flag.item():
            raise StepFailed(phase) from error

    def micro_step(self, i: int, last: bool) -> None:
        error = x = None
        try:
            x = self.reader.read(i)
        except OSError as exc:
            error = exc
        self.vote("read", error)
        if error is None:  # HEALTHY
            with nullcontext() if last else self.model.no_sync():
                loss = self.model(x).pow(2).mean() / ACCUMULATE
                loss.backward()  # BUG
        self.vote("step", error)

    def train(self, micro_steps: int) -> None:
        for i in range(micro_steps):
            last, reduced = i % ACCUMULATE == ACCUMULATE - 1, True
            try:
                self.micro_step(i, last)
            except StepFailed as failed:
                print(f"micro-step {i} dropped everywhere ({failed})")
                reduced = False
            if last:
                if reduced:
                    self.opt.step()
                self.opt.zero_grad()


def main(rank: int) -> None:
    Recipe(rank).train(24)


main(init())
dist.destroy_process_group()
