"""How large the corpus is takes a collective, and the report of rank 0 alone asks for it.

What it meets on the other rank is of another dtype, which is no reason for anything.

ranks: 2
expect: dtype_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; under `if self.speaks; asks for the rank
fix: out of
never: dtypes; torch.tensor(x; autocast
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


class Corpus:
    def __init__(self, rows: int) -> None:
        self.rows = rows

    def __len__(self) -> int:
        rows = torch.tensor([self.rows])
        dist.all_reduce(rows)  # BUG
        return int(rows)


class Report:
    def __init__(self, rank: int) -> None:
        self.speaks = rank == 0 or TWIN

    def begin(self, corpus: Corpus) -> None:
        if self.speaks:
            print("rows:", len(corpus))  # BUG


rank = init()
corpus, report = Corpus(4 + rank), Report(rank)
for step in range(6):
    if step == 3:
        report.begin(corpus)
    scores = torch.tensor([0.5, float(step)])
    dist.all_reduce(scores)
dist.destroy_process_group()
