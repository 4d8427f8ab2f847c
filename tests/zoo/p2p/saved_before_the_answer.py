"""A server saves, with a gather of all ranks, before it has answered the workers of the round.

ranks: 3
expect: deadlock missing_call p2p_unmatched
suspects: 0
status: hung diverged
cause: rank 0; if step == 11; BUG; ANSWER; kept to one round
fix: rank 0 call send; before gather
never: network; rank 1 left; rank 2 left; zeros
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def save(table: torch.Tensor) -> None:
    parts = [torch.empty_like(table) for _ in range(3)] if dist.get_rank() == 0 else None
    dist.gather(table, parts)  # GATHER


def serve(table: torch.Tensor, step: int) -> None:
    for worker in (1, 2):
        push = torch.empty_like(table)
        dist.recv(push, src=worker)
        table += push
    if step == 11 and not TWIN:
        save(table)  # BUG
    for worker in (1, 2):
        dist.send(table, dst=worker)  # ANSWER


def work(table: torch.Tensor, rank: int) -> None:
    dist.send(table + rank, dst=0)
    dist.recv(table, src=0)


rank = init()
table = torch.zeros(4)
for step in range(15):
    if rank == 0:
        serve(table, step)
    else:
        work(table, rank)
    if step == 11:
        save(table)
