"""Two tensor parallel replicas decode other prompts, with their own number and sizes of calls.

One issues the call of the dp group even before its last one in tp. Each group by itself agrees,
and the replicas meet at the end.

ranks: 4
expect: nothing
status: aligned
"""

import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

from tests.zoo.common import init

rank = init(timedelta(seconds=60))
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
dp, tp = mesh.get_group("dp"), mesh.get_group("tp")
replica = mesh.get_local_rank("dp")


class Halves(nn.Module):
    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, width // 2), nn.Linear(width // 2, width, bias=False)

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.down(self.up(x).relu())
        dist.all_reduce(y, group=tp)
        return x + y


def decode(prompt: int, limit: int) -> None:
    x = torch.ones(prompt, 6)
    for _ in range(limit):
        x = torch.cat([model(x), torch.ones(1, 6)])
        if len(x) > 9:
            kept = torch.tensor([len(x)])
            dist.broadcast(kept, src=dist.get_global_rank(tp, 0), group=tp)
            x = x[-int(kept) // 2 :]


def vocabulary_check() -> None:
    edge = model(torch.zeros(1, 6)).amax().reshape(1)
    dist.all_gather([torch.zeros(1) for _ in range(2)], edge, group=tp)


model = Halves()
for prompt, limit in [[(3, 4), (5, 2)], [(2, 9), (8, 6), (1, 1)]][replica]:
    decode(prompt, limit)
count = torch.tensor([float(replica)])
if replica == 0:
    vocabulary_check()
    dist.all_reduce(count, group=dp)
else:
    time.sleep(0.5)
    work = dist.all_reduce(count, group=dp, async_op=True)
    vocabulary_check()
    assert work is not None
    work.wait()
dist.barrier()
