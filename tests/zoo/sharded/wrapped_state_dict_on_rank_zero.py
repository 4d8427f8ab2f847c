"""FullyShardedDataParallel; only the rank that writes the checkpoint asks for the state dict.

ranks: 3
expect: op_mismatch role_mismatch shape_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; ASKS; state_dict; only rank 0 | never
fix: state_dict(); every rank; FullStateDictConfig*; rank0_only=True; ASKS
never: ragged; drop_last; loop ended; left the loop; get_model_state_dict; times zero; this forward
"""

import io

import torch
from torch.distributed.fsdp import FullStateDictConfig, FullyShardedDataParallel, StateDictType
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

from tests.zoo.common import TWIN, init


def checkpoint(writes: bool) -> None:
    """Every third step."""
    if writes or TWIN:  # ASKS
        how = FullStateDictConfig(rank0_only=True)
        with FullyShardedDataParallel.state_dict_type(net, StateDictType.FULL_STATE_DICT, how):
            torch.save(net.state_dict(), io.BytesIO())  # BUG


rank = init()
net = FullyShardedDataParallel(
    torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4)),
    auto_wrap_policy=ModuleWrapPolicy({torch.nn.Linear}),
    device_id=torch.device("cpu"),
)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(6):
    net(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step == 3:
        checkpoint(writes=rank == 0)
