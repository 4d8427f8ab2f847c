r"""Whoever is free answers the next question, and rank 2 fails over one; the asker waits for it.

ranks: 3
expect: p2p_unmatched
suspects: 2
status: hung
cause: rank 2; ZeroDivisionError; BUG; ASKED
fix: Fix what raised on rank 2
never: network; any rank issued; rank 1 raised
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

QUESTIONS = (5, 4, 8, 1, 2, 0, 3, 6)


def ask(workers: range) -> None:
    for turn in range(0, len(QUESTIONS), len(workers)):
        for worker, question in zip(workers, QUESTIONS[turn:], strict=False):
            dist.send(torch.tensor([question + TWIN]), dst=worker)
        for _ in workers:
            dist.recv(torch.empty(1))  # ASKED
    for worker in workers:
        dist.send(torch.tensor([-1]), dst=worker)


def answer() -> None:
    question = torch.zeros(1, dtype=torch.int64)
    while True:
        dist.recv(question, src=0)
        if question < 0:
            return
        dist.send(torch.tensor([1 / question.item()]), dst=0)  # BUG


if init() == 0:
    ask(range(1, dist.get_world_size()))
else:
    answer()
dist.destroy_process_group()
