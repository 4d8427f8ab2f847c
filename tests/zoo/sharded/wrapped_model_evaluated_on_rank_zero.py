"""FullyShardedDataParallel; the validation hook of a trainer class runs on the main rank only.

Two modules of one size are gathered there; the training of the others meets those gathers.

ranks: 3
expect: op_mismatch role_mismatch shape_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; ASKS; CALLED; validate*; unshard | forward; TRAINS; only rank 0 | never
fix: CALLED; ASKS; every rank; this forward; FullStateDictConfig*; rank0_only=True
never: ragged; drop_last; loop ended; left the loop; set_reduce_scatter_unused_params; times zero;
    get_model_state_dict; find_unused_parameters
"""

import torch
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

from tests.zoo.common import TWIN, init


class Trainer:
    """A loop with a hook after some steps."""

    def __init__(self, net: torch.nn.Module, is_main: bool) -> None:
        self.net, self.is_main = net, is_main
        self.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def fit(self, steps: int) -> None:
        for step in range(1, steps + 1):
            self.train()
            if step % 4 == 0 and self.is_main:  # ASKS
                self.validate()  # CALLED

    def train(self) -> None:
        self.optimizer.zero_grad()
        self.net(torch.ones(3, 5)).square().mean().backward()  # TRAINS
        self.optimizer.step()

    @torch.no_grad()
    def validate(self) -> None:
        print("validation", float(self.net(torch.zeros(3, 5)).mean()), flush=True)  # BUG


rank = init()
layers = torch.nn.Sequential(*(torch.nn.Linear(5, 5) for _ in range(3)))
wrapped = FullyShardedDataParallel(
    layers, auto_wrap_policy=ModuleWrapPolicy({torch.nn.Linear}), device_id=torch.device("cpu")
)
Trainer(wrapped, is_main=rank == 0 or TWIN).fit(7)
