"""Before parameters and before buffers their number is summed, to check that all have as many.

Rank 1 finds nothing to replace and goes on to its parameters: the two numbers are summed with each
other, and the check fails on every rank. The bytes agree.

ranks: 3
expect: raised
severity: warning
suspects: none
status: aligned
cause: last call; only one; different lines; BUFFERS; GRADIENTS; NOTHING
fix: First see whether; NOTHING; on every rank | decide together; fix what raised
never: network; no collective has to be changed
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def check(tensors: list[torch.Tensor]) -> None:
    count = torch.tensor([len(tensors)])
    dist.all_reduce(count)
    if int(count) != len(tensors) * dist.get_world_size():
        raise RuntimeError("a worker has another number of tensors")


def share(buffers: list[torch.Tensor]) -> None:
    check(buffers)
    for one in buffers:
        dist.broadcast(one, 0)


def average(gradients: list[torch.Tensor]) -> None:
    check(gradients)
    for one in gradients:
        dist.all_reduce(one)


def replace(buffers: list[torch.Tensor], dead: bool) -> None:
    if not dead:  # NOTHING
        return
    share(buffers)


rank = init()
parameters, buffers = [torch.ones(2)] * 4, [torch.ones(2)] * 3
for step in range(6):
    dead = step == 5 and (rank != 1 or TWIN)
    replace(buffers, dead)  # BUFFERS
    average(parameters)  # GRADIENTS
dist.destroy_process_group()
