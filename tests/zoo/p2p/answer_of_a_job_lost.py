"""A worker swallows the error of its job and sends no answer; the answers are of any source.

ranks: 3
expect: deadlock p2p_unmatched missing_call
status: hung
cause: rank 0; recv
fix: count both; one recv
never: received none
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

JOBS = 12


def solved(job: int, rank: int) -> torch.Tensor:
    if job == 7 and not TWIN:
        raise ValueError(f"job {job} cannot be read")
    return torch.tensor([float(job), float(rank)])


def coordinate() -> None:
    answer = torch.zeros(2)
    for job in range(0, JOBS, 2):
        for worker in (1, 2):
            dist.send(torch.tensor([job + worker - 1]), worker, tag=1)
        for _ in range(2):
            dist.recv(answer, tag=2)  # BUG
    for worker in (1, 2):
        dist.send(torch.tensor([-1]), worker, tag=1)


def work(rank: int) -> None:
    job = torch.zeros(1, dtype=torch.int64)
    while True:
        dist.recv(job, 0, tag=1)  # BUG
        if job.item() < 0:
            return
        try:
            dist.send(solved(int(job), rank), 0, tag=2)
        except ValueError:
            continue


rank = init()
coordinate() if rank == 0 else work(rank)
if TWIN:
    dist.barrier()
dist.destroy_process_group()
