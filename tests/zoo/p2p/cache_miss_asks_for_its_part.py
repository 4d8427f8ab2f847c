"""A cache that has missed asks rank 0 for its part, by arrangement: who handles it is not to blame.

ranks: 2
expect: deadlock p2p_unmatched
suspects: none
status: hung
cause: BUG; TOTAL
fix: /send|way/
never: mend what raised; rank 1 raised
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
cache = {step: torch.ones(4) for step in range(3)}
for step in range(6):
    if rank == 0 and step > 2 and (TWIN or step % 2 == 0):
        dist.send(torch.full((4,), float(step)), 1)
    if rank == 1:
        try:
            part = cache[step]
        except KeyError:
            dist.recv(torch.empty(4), 0)  # BUG
    dist.all_reduce(torch.ones(2))  # TOTAL
