"""Two pairs of expert-parallel ranks. Rank 2 has no tokens once, and skips its all_to_all.

Ranks 0, 1 and 3 go through one program, each in its own pair, so it is rank 2 that left calls out.

ranks: 4
expect: deadlock missing_call
suspects: 2
status: hung
cause: rank 2; all_to_all*; BUG; left out | did not | skip* | without
fix: every rank | all ranks | empty | zero
never: each is right by itself; different order
"""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from tests.zoo.common import TWIN, init

rank = init()
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "ep"))
experts = mesh.get_group("ep")


def route(tokens: int) -> None:
    if tokens == 0 and not TWIN:
        return
    sent = torch.tensor([tokens // 2, tokens // 2])
    awaited = torch.empty_like(sent)
    dist.all_to_all_single(awaited, sent, group=experts)  # BUG
    tokens_here = torch.empty(int(awaited.sum()))
    dist.all_to_all_single(
        tokens_here, torch.ones(tokens), awaited.tolist(), sent.tolist(), group=experts
    )


for step in range(4):
    route(0 if (rank, step) == (2, 2) else 4)
    dist.all_reduce(torch.ones(1))  # of the loss that balances the experts
