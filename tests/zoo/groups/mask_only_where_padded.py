"""Rank 2 has a batch without padding, so no mask to broadcast in its pair; rank 3 waits for one.

ranks: 4
expect: op_mismatch
suspects: 2
status: diverged
cause: rank 2; RECEIVER; `if batch["mask"] is not None:`; false on rank 2; next(self.corpus)
fix: rank 3 does not reach; every rank
never: drop_last; join(); /rank 3 (is to blame|left|skipped)/
"""

import random
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from tests.zoo.common import TWIN, init

SEQ, BATCH, TP = 8, 2, 2
ALWAYS_MASK = TWIN


class Corpus:
    """Documents of the data-parallel replica, padded to SEQ in batches."""

    def __init__(self, replica: int, lengths: list[tuple[int, int]]) -> None:
        self.random, self.lengths = random.Random(replica), iter(lengths)

    def __next__(self) -> dict[str, Any]:
        lengths = next(self.lengths)
        tokens = torch.tensor([[self.random.randrange(1, 50) for _ in range(SEQ)] for _ in lengths])
        mask = None
        if ALWAYS_MASK or min(lengths) < SEQ:
            mask = (torch.arange(SEQ) < torch.tensor(lengths)[:, None]).float()
        return {"tokens": tokens, "mask": mask}


class Batches:
    """The first rank of each pair reads, and hands on."""

    def __init__(
        self,
        tp_group: dist.ProcessGroup,
        source: int,
        corpus: Corpus | None,
        with_mask: bool = True,
    ) -> None:
        self.group, self.source, self.corpus, self.with_mask = tp_group, source, corpus, with_mask

    def broadcast(self, tensor: torch.Tensor) -> torch.Tensor:
        dist.broadcast(tensor, src=self.source, group=self.group)
        return tensor

    def get(self) -> dict[str, Any]:
        if self.corpus is not None:
            batch = next(self.corpus)
            self.broadcast(batch["tokens"])
            if batch["mask"] is not None:
                self.broadcast(batch["mask"])  # BUG
        else:
            batch = {
                "tokens": self.broadcast(torch.empty(BATCH, SEQ, dtype=torch.long)),
                "mask": None,
            }
            if self.with_mask:
                batch["mask"] = self.broadcast(torch.empty(BATCH, SEQ))  # RECEIVER
        return batch


class ParallelModel(nn.Module):
    def __init__(self, tp_group: dist.ProcessGroup) -> None:
        super().__init__()
        self.group = tp_group
        self.embed, self.part = nn.Embedding(50, 12), nn.Linear(12, 12)

    def forward(self, batch: dict[str, Any]) -> torch.Tensor:
        hidden: torch.Tensor = self.part(self.embed(batch["tokens"]))
        partial = hidden.detach().clone()
        dist.all_reduce(partial, group=self.group)  # HIDDEN
        hidden = hidden + (partial - hidden.detach())
        losses = hidden.pow(2).mean(dim=-1)
        return (
            losses.mean()
            if batch["mask"] is None
            else (losses * batch["mask"]).sum() / batch["mask"].sum()
        )


rank = init()
torch.manual_seed(0)
tp_groups = [dist.new_group([first, first + 1]) for first in (0, 2)]
dp_groups = [dist.new_group([first, first + 2]) for first in (0, 1)]
replica, tp_rank = divmod(rank, TP)
lengths = [
    [(8, 5), (7, 8), (3, 3), (8, 6), (4, 8), (8, 7)],
    [(6, 6), (8, 2), (5, 8), (8, 8), (7, 1), (2, 8)],
][replica]
batches = Batches(
    tp_groups[replica], replica * TP, Corpus(replica, lengths) if tp_rank == 0 else None
)
model = ParallelModel(tp_groups[replica])
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(len(lengths)):
    loss = model(batches.get())
    optimizer.zero_grad()
    loss.backward()
    for p in model.parameters():
        dist.all_reduce(p.grad, group=dp_groups[tp_rank])
    optimizer.step()
dist.destroy_process_group()
