"""Two threads use one group, but never at once: the main thread waits for the other. All fits.

ranks: 3
expect: nothing
status: aligned
"""

from concurrent.futures import ThreadPoolExecutor

import torch
import torch.distributed as dist

from tests.zoo.common import init


def gather() -> None:
    dist.all_gather_single(torch.empty(6), torch.ones(2))


rank = init()
with ThreadPoolExecutor(1) as pool:
    for _ in range(4):
        dist.all_reduce(torch.ones(4))
        pool.submit(gather).result()
