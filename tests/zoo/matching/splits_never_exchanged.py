"""Each rank expects from the others as many rows as it sends them itself.

ranks: 3
expect: split_mismatch
suspects: none
status: diverged crashed
cause: BUG; not exchanged
fix: Exchange the sizes first
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def dispatch(rows: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    sent = counts.tolist()
    if TWIN:
        received = torch.empty_like(counts)
        dist.all_to_all_single(received, counts)
        counts = received
    out = rows.new_empty(int(counts.sum()), rows.shape[1])
    dist.all_to_all_single(out, rows, counts.tolist(), sent)  # BUG
    return out


rank = init()
expert = torch.randint(3, (12,), generator=torch.Generator().manual_seed(rank))
dispatch(torch.ones(12, 4), torch.bincount(expert, minlength=3))
dist.barrier()
