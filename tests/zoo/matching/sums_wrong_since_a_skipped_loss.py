"""Rank 1 skips the sum of a loss that is no number; from then on its sums are of other things.

Loss and norm have as many bytes, so that nothing fails before the weights are saved, nine calls
later. All sums since call 9 are wrong, on every rank.

ranks: 3
expect: op_mismatch missing_call role_mismatch shape_mismatch
suspects: 1
status: diverged hung
cause: rank 1; SKIPS; BUG; /(since|from) call 9\\b/
fix: SKIPS | BUG; every rank | decide together | all ranks
never: loop ended; same number of iterations; drop_last; ambiguous; do not show which
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def mean_loss(loss: torch.Tensor) -> torch.Tensor:
    if not TWIN and not torch.isfinite(loss).all():  # SKIPS
        return loss
    total = torch.nan_to_num(loss)
    dist.all_reduce(total)  # BUG
    return total / dist.get_world_size()


def gradient_norm(gradient: torch.Tensor) -> torch.Tensor:
    squared = gradient.square().sum().reshape(1)
    dist.all_reduce(squared)
    return squared.sqrt()


def train(data: torch.Tensor) -> torch.Tensor:
    weight = torch.ones(4)
    for batch in data:
        loss = (batch * weight).mean().reshape(1)
        gradient = torch.nan_to_num(batch) * 0.1
        mean, norm = mean_loss(loss), gradient_norm(gradient)
        weight = weight - 0.1 * gradient / norm.clamp(min=1.0)
        if mean > 100.0:
            print("loss is large", flush=True)
    return weight


rank = init()
data = torch.ones(8, 4)
if rank == 1:
    data[4, 2] = float("nan")
weights = [torch.empty(4) for _ in range(dist.get_world_size())]
dist.all_gather(weights, train(data))
dist.destroy_process_group()
