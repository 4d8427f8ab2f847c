"""Two batches are exchanged by an autograd function; rank 1 goes back through the longer one first.

ranks: 3
expect: split_mismatch
suspects: 1
status: diverged
cause: rank 1; sends; expects; BUG; Swap.backward() | swapped()
fix: input_split_sizes
never: drop_last; unused parameters
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

LENGTHS = [[2, 3], [2, 3], [2, 3], [2, 3]]


def swapped(rows: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(rows)
    share = [len(rows) // 3] * 3
    dist.all_to_all_single(out, rows.contiguous(), share, share)
    return out


class Swap(torch.autograd.Function):
    @staticmethod
    def forward(_ctx: object, rows: torch.Tensor) -> torch.Tensor:
        return swapped(rows)

    @staticmethod
    def backward(_ctx: object, grad: torch.Tensor) -> torch.Tensor:
        return swapped(grad)


rank = init()
weight = torch.ones(4, requires_grad=True)
for number, lengths in enumerate(LENGTHS):
    rows = [weight * torch.ones(3 * n, 4) for n in lengths]
    losses = [Swap.apply(one).sum() for one in rows]  # type: ignore[no-untyped-call]
    if rank == 1 and number == 3 and not TWIN:
        losses.reverse()
    for loss in losses:
        loss.backward()  # BUG
dist.barrier()
