"""A rank without requests runs a step for show, which drafts before it computes the logits.

ranks: 3
expect: shape_mismatch
suspects: 0
status: diverged
cause: rank 0; ARM; REAL; BUG; one arm; the same calls in one order
fix: ARM; REAL; same collectives; one order
never: on every rank or on none; loop ended; ragged
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def gather(width: int) -> None:
    dist.all_gather_into_tensor(torch.empty(3 * width), torch.ones(width))


def padded(rows: int) -> int:
    most = torch.tensor([rows])
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    return int(most)


def logits() -> None:
    gather(12)


def drafts() -> None:
    gather(6)


def step(requests: int) -> None:
    if not requests:
        idle()  # ARM
        return
    work(requests)  # REAL


def work(requests: int) -> None:
    padded(requests)
    logits()
    drafts()


def idle() -> None:
    padded(1)
    if TWIN:
        logits()
    drafts()  # BUG
    if not TWIN:
        logits()


rank = init()
for n in range(6):
    step(0 if rank == 0 and n == 4 else 2)
dist.destroy_process_group()
