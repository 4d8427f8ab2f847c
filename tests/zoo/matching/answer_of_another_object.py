"""A scaler is asked whether it is enabled; a logger of the script answers that by the rank.

ranks: 2
expect: op_mismatch
suspects: none
status: diverged
cause: rank 0; BUG; CONDITION
fix: every rank
never: asks for the rank; only rank 0
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()


class Logger:
    def is_enabled(self) -> bool:
        return dist.get_rank() == 0


class Trainer:
    def __init__(self, amp: bool) -> None:
        self.scaler = torch.amp.GradScaler("cpu", enabled=amp)
        self.log = Logger()

    def step(self) -> None:
        if self.scaler.is_enabled():  # CONDITION
            dist.all_reduce(torch.zeros(1))  # BUG
        dist.broadcast(torch.ones(4), src=0)


trainer = Trainer(amp=rank == 0 and not TWIN)
for _ in range(4):
    trainer.step()
