"""A mean over all ranks is a cached property, evaluated when a log line is written: not on rank 2.

Its logger shows warnings only. That a property communicates is the mistake.

ranks: 3
expect: op_mismatch shape_mismatch missing_call
suspects: 2
status: diverged
cause: rank 2; BUG; QUIET; property | mean_loss
fix: property | mean_loss; every rank | before | outside | out of
never: decide together before; depends on the rank; same number of iterations; drop_last
"""

import logging
from functools import cached_property

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

logger = logging.getLogger("zoo")


class Summary:
    """What an epoch has come to."""

    def __init__(self, losses: list[float]) -> None:
        self.losses = losses

    @cached_property
    def mean_loss(self) -> float:
        total = torch.tensor([sum(self.losses), float(len(self.losses))])
        dist.all_reduce(total)  # BUG
        return float(total[0] / total[1])


def train_epoch(weight: torch.Tensor) -> Summary:
    losses = []
    for _ in range(3):
        gradient = weight * 0.1
        dist.all_reduce(gradient)
        weight -= gradient / dist.get_world_size()
        losses.append(float(weight.square().mean()))
    return Summary(losses)


def main(rank: int) -> None:
    level = logging.WARNING if rank == 2 and not TWIN else logging.INFO
    logger.setLevel(level)
    logger.addHandler(logging.StreamHandler())
    weight = torch.ones(4)
    for epoch in range(3):
        summary = train_epoch(weight)
        if not logger.isEnabledFor(logging.INFO):  # QUIET
            continue
        logger.info("epoch %d: mean loss %.3f", epoch, summary.mean_loss)
    dist.barrier()


main(init())
dist.destroy_process_group()
