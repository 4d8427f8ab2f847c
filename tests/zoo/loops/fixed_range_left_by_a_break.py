"""A loop of ten steps on every rank; rank 1 leaves it by a break, for its own loss is small enough.

The loop has one length everywhere, and there is no DDP: neither can be what is wrong.

ranks: 3
expect: op_mismatch missing_call
suspects: 1
status: diverged hung
cause: rank 1; BREAK; break; BUG
fix: BREAK; decide together | all_reduce | every rank
never: extra call; loop ended; ended earlier; same length; same number of; join(); drop_last;
    DistributedSampler; /the loop `for [^`]*` decided/; depends on the rank
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def local_loss(weight: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return (weight - target).square().mean()


def average(values: torch.Tensor) -> None:
    dist.all_reduce(values)  # BUG
    values /= dist.get_world_size()


def descend(target: torch.Tensor) -> torch.Tensor:
    weight = torch.zeros(4)
    for step in range(10):
        gradient = 2 * (weight - target)
        average(gradient)
        weight = weight - 0.2 * gradient
        loss = local_loss(weight, target)
        if TWIN:
            dist.all_reduce(loss, op=dist.ReduceOp.MAX)
        if loss < 1e-2:  # BREAK
            print("converged in step", step, flush=True)
            break
    return weight


rank = init()
target = torch.full((4,), 1.0 if rank == 1 else 1.0 + rank - 1)
weight = descend(target)
dist.barrier()
print(float(weight.mean()), flush=True)
dist.destroy_process_group()
