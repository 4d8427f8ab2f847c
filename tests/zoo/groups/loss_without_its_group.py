"""The last stages average their loss, before they send its gradient, over all ranks.

ranks: 4
expect: deadlock
suspects: none
status: hung crashed
cause: BUG; recv; all_reduce
fix: ranks 2-3 alone; whose members they are
never: rank 1 skipped; ended
"""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from tests.zoo.common import TWIN, init

init()
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "dp"))
stages, replicas = mesh.get_group("pp"), mesh.get_group("dp")
stage = mesh.get_local_rank("pp")
peer = dist.get_process_group_ranks(stages)[1 - stage]


def report(loss: torch.Tensor) -> None:
    dist.all_reduce(loss, group=replicas if TWIN else None)  # BUG


def step(batch: torch.Tensor) -> None:
    if stage == 0:
        dist.send(batch, peer, group=stages)
        dist.recv(batch, peer, group=stages)
        return
    dist.recv(batch, peer, group=stages)
    report(batch.square().mean())
    dist.send(batch, peer, group=stages)


for _ in range(3):
    step(torch.ones(4))
    dist.all_reduce(torch.ones(8), group=replicas)
