"""Two stages. The first evaluates once, alone: it sends four activations that the other trains on.

expect: deadlock p2p_unmatched
suspects: none
status: hung
cause: rank 0; rank 1; EVALUATES; 4; BUG; WHEN
fix: every stage | every rank | all ranks | all stages | both
never: each is right by itself; before its recv; microbatch
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def forward(microbatches: int) -> None:
    for _ in range(microbatches):
        dist.send(torch.ones(4), dst=1)  # BUG


def evaluate() -> None:
    forward(4)  # EVALUATES


rank = init()
for step in range(5):
    if rank == 0:
        forward(4)
        for _ in range(4):
            dist.recv(torch.empty(4), src=1)
        if step == 3 and not TWIN:  # WHEN
            evaluate()
    else:
        for _ in range(4):
            dist.recv(torch.empty(4), src=0)
        for _ in range(4):
            dist.send(torch.ones(4), dst=0)
