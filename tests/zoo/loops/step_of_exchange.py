"""A worker asks a server in each step, and reads its answer; in step 6 it reads before it asks.

The script counts its steps. Which of the two was meant, nothing tells.

expect: deadlock
suspects: none
status: hung
cause: rank 0; rank 1; BUG; SERVES; /elif step == 6/; instead of send; which rank is wrong
fix: recv | send
never: left the loop; drop_last; ragged
"""

import torch
import torch.distributed as dist

import collectrace
from tests.zoo.common import TWIN, init


def ask(question: torch.Tensor) -> None:
    dist.send(question, dst=0, tag=1)


def answered(size: int) -> torch.Tensor:
    answer = torch.empty(size)
    dist.recv(answer, src=0, tag=2)  # BUG
    return answer


def serve() -> None:
    question = torch.empty(3)
    dist.recv(question, src=1, tag=1)  # SERVES
    dist.send(question.repeat(2), dst=1, tag=2)


rank = init()
for step in range(1, 9):
    collectrace.step()
    dist.broadcast(torch.ones(2), src=0)
    if rank == 0:
        serve()
    elif step == 6 and not TWIN:
        answered(6)
        ask(torch.ones(3))
    else:
        ask(torch.ones(3))
        answered(6)
