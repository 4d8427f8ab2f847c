"""A serving loop. Rank 1 skips the prefill of one request, and the job hangs seconds later.

Prefill and decoding reduce the same bytes, so nothing is noticed when the counts part: at call 13,
in the fourth request. What fails is the end of the service.

ranks: 3
expect: missing_call role_mismatch
suspects: 1
status: hung diverged
cause: rank 1; PREFILL | BUG; call 13; if not cached*; /\\d\\d:\\d\\d:\\d\\d.*\\d\\d:\\d\\d:\\d\\d/
fix: every rank | all ranks
never: ran longer; 48 times
"""

import time

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def prefill() -> None:
    dist.all_reduce(torch.ones(4))  # BUG


def decode() -> None:
    dist.all_reduce(torch.ones(4))


rank = init()
for request in range(12):
    cached = (rank, request) == (1, 3)
    if not cached or TWIN:
        prefill()
    for _ in range(3):
        decode()
    time.sleep(0.3)
