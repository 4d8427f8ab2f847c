"""Both learners send their weights to the player, which receives those of the first one only.

It goes on to its broadcast, as it should: the loop over the weights has ended.

ranks: 3
expect: deadlock
suspects: none
status: hung
cause: rank 1; rank 2 never received one; BUG
fix: make its recv | leave out
never: instead of recv; earlier iterations; number of iterations differs
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

LEARNERS, PLAYER = 2, 2


def give(weights: list[torch.Tensor]) -> None:
    for one in weights:
        dist.send(one, dst=PLAYER)  # BUG


def take(weights: list[torch.Tensor], learner: int) -> None:
    for one in weights:
        dist.recv(one, src=learner)


rank = init()
weights = [torch.ones(4 + n) for n in range(5)]
for _ in range(3):
    if rank < LEARNERS:
        give(weights)
    else:
        for learner in range(LEARNERS if TWIN else 1):
            take(weights, learner)
    dist.broadcast(torch.ones(8), src=PLAYER)
dist.destroy_process_group()
