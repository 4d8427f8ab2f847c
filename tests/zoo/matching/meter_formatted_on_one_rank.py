"""A meter is reduced when it is turned into text, which a logger does on rank 0 alone.

It meets the first reduction of the evaluation, with as many bytes; the row behind it fails.

ranks: 2
expect: op_mismatch
suspects: none
status: diverged
cause: rank 0; BUG; took the other for its own; rank 0 made one call more, or rank 1 left one out
fix: BUG; logger
never: left the loop; begun it again; once more and
"""

import logging

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

logger = logging.getLogger("zoo")


class Meter:
    def __str__(self) -> str:
        total = torch.ones(2)
        dist.all_reduce(total)  # BUG
        return f"{total[0]:.3f}"


def evaluate() -> None:
    dist.all_reduce(torch.ones(2))
    dist.broadcast(torch.ones(3), src=0)


rank = init()
logger.addHandler(logging.StreamHandler())
logger.setLevel(logging.INFO if rank == 0 else logging.WARNING)
for _ in range(5):
    dist.all_gather([torch.ones(1), torch.ones(1)], torch.ones(1))
meter = Meter()
logger.info("loss %s", str(meter) if TWIN else meter)  # BUG
evaluate()
