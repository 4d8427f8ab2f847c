"""A block runs within a net, and on rank 1 once more by itself: in the statement of its backward.

ranks: 2
expect: shape_mismatch op_mismatch
suspects: none
status: diverged
cause: BUG; rank 1; BLOCK
fix: /every rank|all ranks/
never: ran again; checkpointed
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.inner(x)
        dist.all_reduce(out.detach().clone())  # BLOCK
        return out


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = Block()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.block(x)
        return out.relu()


rank = init()
net, x = Net(), torch.ones(2, 4)
for step in range(6):
    aside = rank == 1 and step == 4 and not TWIN
    (net(x) + (net.block(x) if aside else 0)).sum().backward()
    dist.all_reduce(torch.ones(20))  # BUG
