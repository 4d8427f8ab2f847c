"""Gradient norm on a dp x tp mesh: sharded weights are summed over tp, replicated ones over dp.

On rank 1 an adapter has lost its mark, so its square is summed over the wrong axis. Everything is
one number, so each of the groups goes on one call off for a while.

ranks: 4
expect: group_mismatch missing_call op_mismatch role_mismatch shape_mismatch deadlock
suspects: 1
status: diverged hung
cause: rank 1; group* | axis | dp | tp; BUG | all_reduce
fix: group | tp; every rank | all ranks | rank 1 | members | same order | same sequence |
  same group | right group
never: drop_last; join; sampler
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

from tests.zoo.common import TWIN, init

rank = init()
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))


class Sharded(nn.Parameter):
    """A part of a weight; the other ranks of tp have the others."""


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = Sharded(torch.ones(6, 3)), Sharded(torch.ones(3, 6))
        self.adapter, self.scale = Sharded(torch.ones(6, 6)), nn.Parameter(torch.ones(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.relu(x @ self.wide) @ self.narrow * self.scale + x @ self.adapter


def merge_adapter(block: Block) -> None:
    """Put a folded weight in place of the adapter's."""
    folded = block.adapter.detach() * 0.5
    block.adapter = Sharded(folded) if TWIN else nn.Parameter(folded)  # type: ignore[assignment]


def global_norm() -> float:
    total = torch.zeros(1)
    for parameter in model.parameters():
        assert parameter.grad is not None
        square = parameter.grad.square().sum().reshape(1)
        axis = "tp" if isinstance(parameter, Sharded) else "dp"
        dist.all_reduce(square, group=mesh.get_group(axis))  # BUG
        total += square
    return total.sqrt().item()


blocks = [Block(), Block(), Block()]
model = nn.Sequential(*blocks)
for step in range(3):
    if step == 1 and rank == 1:
        merge_adapter(blocks[1])
    model(torch.randn(4, 6)).square().mean().backward()
    biggest = torch.tensor([global_norm()])
    model.zero_grad()
    dist.all_reduce(biggest, op=dist.ReduceOp.MAX)
