"""A reader sends two records in each step; one that cannot be read it logs, and does not send.

ranks: 2
expect: deadlock missing_call p2p_unmatched
suspects: 0
status: hung diverged
cause: rank 0; except UnicodeDecodeError; BUG; /rank 0 (handled|raised|caught)/; skipped send
fix: error flag; rank 0; zeros | empty tensor
never: drop_last; which of them was meant; the network
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def read(number: int) -> torch.Tensor:
    text = b"\xff" if number == 11 and not TWIN else b"ok"
    return torch.tensor([float(len(text.decode())), number])


def feed(step: int) -> None:
    for n in range(2):
        try:
            record = read(2 * step + n)
        except UnicodeDecodeError as problem:
            print("skipped:", problem, flush=True)
            continue
        dist.send(record, 1)  # BUG


def learn() -> None:
    record = torch.zeros(2)
    for _ in range(2):
        dist.recv(record, 0)  # BUG


rank, loss = init(), torch.zeros(1)
for step in range(8):
    if rank == 0:
        feed(step)
    else:
        learn()
    dist.all_reduce(loss)
