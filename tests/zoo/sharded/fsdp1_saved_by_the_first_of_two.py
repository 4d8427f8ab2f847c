"""The first of two ranks alone asks FullyShardedDataParallel for its state dict, every other step.

expect: op_mismatch shape_mismatch role_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; state_dict; rank == 0 | ASKED
fix: every rank; state_dict
never: ambiguous; loop ended; left the loop; drop_last
"""

import torch
from torch.distributed.fsdp import FullStateDictConfig, StateDictType
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP  # noqa: N817
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

from tests.zoo.common import TWIN, init


def checkpoint() -> None:
    whole = FullStateDictConfig(rank0_only=True)
    with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, whole):
        model.state_dict()  # BUG


rank = init()
model = FSDP(
    torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)),
    auto_wrap_policy=ModuleWrapPolicy({torch.nn.Linear}),
    device_id=torch.device("cpu"),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 2 and (rank == 0 or TWIN):  # ASKED
        checkpoint()
