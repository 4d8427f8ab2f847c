"""Rank 3 syncs its pair before the shuffle of all, the others after: two groups wait in turn.

ranks: 4
expect: deadlock
suspects: 3
status: hung
cause: rank 3; BUG | DRAIN; SHUFFLE | input_dist; EARLY | padding_only
fix: order* | sequence | every rank | all ranks | each rank | swap* | /before [a-z_. ]*all_/ |
    /after [a-z_. ]*all_/ | /after [a-z_. ]*input_dist/ | /before [a-z_. ]*finish/ |
    /after [a-z_. ]*shuffle/
never: /rank 0 (swapped|skipped|left out|is wrong|is to blame)/;
    /rank 1 (swapped|skipped|left out|is wrong|is to blame)/;
    /rank 2 (swapped|skipped|left out|is wrong|is to blame)/
"""

import torch
import torch.distributed as dist
from torch import nn

from tests.zoo.common import TWIN, init


class ShardedEmbedding:
    """Rows are spread over all ranks: ask the owner of each by all_to_all."""

    def __init__(self, rank: int) -> None:
        self.table = torch.randn(8, 4, generator=torch.Generator().manual_seed(rank))

    def input_dist(self, ids: torch.Tensor) -> torch.Tensor:
        asked = torch.empty_like(ids)
        dist.all_to_all_single(asked, ids)  # SHUFFLE
        return asked

    def lookup(self, asked: torch.Tensor) -> torch.Tensor:
        rows = self.table[asked]
        back = torch.empty_like(rows)
        dist.all_to_all_single(back, rows)
        return back


class DenseArch(nn.Module):
    def __init__(self, group: dist.ProcessGroup) -> None:
        super().__init__()
        self.over = nn.Linear(4, 1)
        self.group = group

    def sync(self) -> None:
        for p in self.parameters():
            dist.all_reduce(p.grad, group=self.group)  # BUG


def padding_only(ids: torch.Tensor) -> bool:
    """Such a batch leaves the compiled path, and the other path wants quiet streams."""
    return not ids.any()


class TrainPipeline:
    def __init__(self, sparse: ShardedEmbedding, dense: DenseArch, drain: bool) -> None:
        self.sparse, self.dense, self.drain = sparse, dense, drain
        self.pending = False

    def progress(self, ids: torch.Tensor) -> None:
        if self.drain and padding_only(ids):  # EARLY
            self.finish()  # DRAIN
        asked = self.sparse.input_dist(ids)  # overlaps with the dense part of the batch before
        self.finish()
        out = self.dense.over(self.sparse.lookup(asked)).mean()
        out.backward()
        self.pending = True

    def finish(self) -> None:
        if self.pending:
            self.dense.sync()
            with torch.no_grad():
                for p in self.dense.parameters():
                    p.sub_(0.05 * p.grad)  # type: ignore[operator]
                    p.grad = None
            self.pending = False


def main() -> None:
    rank = init()
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    torch.manual_seed(0)
    dense = DenseArch(pairs[rank // 2])
    pipeline = TrainPipeline(ShardedEmbedding(rank), dense, drain=not TWIN)
    gen = torch.Generator().manual_seed(rank)
    for step in range(9):
        ids = torch.randint(0, 8, (8,), generator=gen)
        if (rank, step) == (3, 5):
            ids.zero_()
        pipeline.progress(ids)
    pipeline.finish()
    dist.barrier()


main()
dist.destroy_process_group()
