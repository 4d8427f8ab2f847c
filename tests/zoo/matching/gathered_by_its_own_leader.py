"""Each rank asks its own counts who leads, and the ranks gather to different leaders.

What receives is made on the leader only, as it should be: that says nothing about the root.

ranks: 3
expect: root_mismatch
suspects: none
status: diverged
cause: BUG; LEADER | COUNTS
fix: same dst
never: parts = ; /compute `parts`/
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
counts = [0, 0, 0]


def collect(value: torch.Tensor, leader: int) -> None:
    parts = [torch.empty_like(value) for _ in counts] if rank == leader else None
    dist.gather(value, parts, dst=leader)  # BUG


for step in range(3):
    counts[0 if TWIN else rank] += step  # COUNTS
    chosen = counts.index(max(counts))  # LEADER
    collect(torch.ones(4), chosen)
