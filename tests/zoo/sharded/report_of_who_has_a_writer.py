"""Two ranks of FSDP: only the first has a writer, and what it writes ends in a barrier.

ranks: 2
expect: op_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; barrier; `if self.lines is not None:`; unshard
fix: BUG; out of; every rank | none
never: ambiguous; ragged; drop_last; unused parameters; loop ended
"""

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

from tests.zoo.common import TWIN, init


class Report:
    def __init__(self, rank: int) -> None:
        self.lines: list[str] | None = [] if rank == 0 else None

    def add(self, line: str) -> None:
        if self.lines is not None:
            self.lines.append(line)
            if len(self.lines) == 5:
                self.flush()

    def flush(self) -> None:
        print(self.lines)
        if not TWIN:
            dist.barrier()  # BUG


rank = init()
report = Report(rank)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4))
fully_shard(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    loss = model(torch.ones(2, 4)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    report.add(f"{step}: {loss.item()}")
dist.barrier()
