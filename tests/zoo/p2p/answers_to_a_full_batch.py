"""Rank 0 asks, rank 1 answers each; the last batch is smaller, and rank 1 answers a full one.

expect: deadlock p2p_unmatched
suspects: 1
status: hung
cause: rank 1; rank 0; 2; 3rd | one more; round* | batch*; BUG
fix: as many | same number | number
never: network; rank 0 that goes on; rank 0 left
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

FULL = 4


def ask(questions: int) -> float:
    answer = torch.empty(3)
    for n in range(questions):
        dist.send(torch.full((3,), float(n)), dst=1)
    return sum(answer.sum().item() for _ in range(questions) if dist.recv(answer, src=1) == 1)


def answer(questions: int) -> float:
    kept = []
    for _ in range(questions):
        kept.append(torch.empty(3))
        dist.recv(kept[-1], src=0)
    kept += [torch.zeros(3)] * (0 if TWIN else FULL - questions)
    for question in kept:
        dist.send(question * 2, dst=0)  # BUG
    return float(len(kept))


rank = init()
for size in (FULL, FULL, FULL, FULL, FULL, 2):
    score = torch.tensor(answer(size) if rank else ask(size))
    dist.all_reduce(score)
