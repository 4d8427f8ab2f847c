"""Scores are gathered from any rank: the id of a case, then its score, each from whoever is first.

ranks: 4
expect: p2p_mismatch
suspects: 3
status: diverged
cause: names no source; any rank; before it; BUG
fix: src=; tag
never: drop_last; Give the receive buffer
"""

import time

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

CASES, BOARD = 5, 3
rank = init()


def gather(count: int) -> dict[tuple[int, float], torch.Tensor]:
    scores = {}
    for _ in range(count):
        case = torch.zeros(1, dtype=torch.int64)
        player = dist.recv(case, tag=4)
        score = torch.zeros(2)
        dist.recv(score, player if TWIN else None, tag=4)  # BUG
        scores[player, case.item()] = score
    return scores


if rank == BOARD:
    scores = gather(3 * CASES)
else:
    for case in range(CASES):
        if rank != 1:
            time.sleep(0.1 * case)
        dist.send(torch.tensor([case]), dst=BOARD, tag=4)
        if rank == 1 and case == 2:
            time.sleep(1)  # a judge that thinks
        dist.send(torch.tensor([0.5, case / CASES]), dst=BOARD, tag=4)
dist.barrier()
