"""The main process alone reports norms of weights, and gathers each with full_tensor() for that.

ranks: 3
expect: op_mismatch missing_call role_mismatch shape_mismatch
suspects: 0
status: diverged hung
cause: rank 0; BUG | full_tensor; only | alone | extra | main process | CALL | others
fix: every rank | all ranks; full_tensor | BUG | report* | norm* | gather* | collective*
never: ragged; drop_last; join; uneven
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from tests.zoo.common import TWIN, init

rank = init()
mesh = init_device_mesh("cpu", (dist.get_world_size(),))


class Reporter:
    def __init__(self, every: int) -> None:
        self.every, self.main = every, rank == 0

    def describe(self, name: str, weight: nn.Parameter) -> str:
        assert isinstance(weight, DTensor)
        full = weight.full_tensor()  # BUG
        return f"{name}: {full.norm():.4f}"

    def __call__(self, step: int) -> None:
        if (step + 1) % self.every:
            return
        if self.main or TWIN:
            lines = [self.describe(n, p) for n, p in net.named_parameters()]  # CALL
            print(*lines, sep="\n", flush=True)


net = nn.Sequential(nn.Linear(9, 9), nn.GELU(), nn.Linear(9, 9), nn.GELU(), nn.Linear(9, 3))
for module in (*net, net):
    if not isinstance(module, nn.GELU):
        fully_shard(module, mesh=mesh, reshard_after_forward=True)
report = Reporter(every=2)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
for step in range(4):
    net(torch.randn(5, 9)).square().mean().backward()
    norm = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    assert isinstance(norm, DTensor)
    norm.full_tensor()
    optimizer.step()
    optimizer.zero_grad()
    report(step)
dist.barrier()
