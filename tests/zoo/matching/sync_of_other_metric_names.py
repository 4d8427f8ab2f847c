"""Pending metrics are summed in sorted order of their names; rank 2 has seen none of one name.

ranks: 3
expect: op_mismatch shape_mismatch missing_call
suspects: 2
status: diverged
cause: rank 2; LOOP; BUG; fewer iterations | another iteration | fewer | ended earlier
fix: same names | same keys | same elements | same things | same metrics | every rank;
    LOOP | names | keys | pending
never: drop_last; join(); DistributedSampler; same number of batches; depends on the rank;
    other order
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


class MetricLogger:
    """Collects numbers by name, and averages them over the ranks when they are due."""

    def __init__(self) -> None:
        self.pending: dict[str, list[float]] = {}

    def log(self, name: str, value: float) -> None:
        self.pending.setdefault(name, []).append(value)

    def flush(self) -> dict[str, float]:
        means = {}
        for name in sorted(self.pending):  # LOOP
            values = self.pending[name]
            total = torch.tensor([sum(values), float(len(values))])
            dist.all_reduce(total)  # BUG
            means[name] = float(total[0] / total[1].clamp(min=1))
        self.pending.clear()
        return means


def train_step(logger: MetricLogger, lengths: list[int], step: int) -> None:
    loss = torch.tensor(1.0 / (step + 1))
    dist.all_reduce(loss)
    logger.log("loss", float(loss))
    truncated = [length for length in lengths if length > 100]
    if truncated or TWIN:
        logger.log("truncated", float(sum(truncated)))


rank = init()
logger = MetricLogger()
for step in range(12):
    lengths = [90, 120] if rank != 2 or step < 8 else [70, 80]
    train_step(logger, lengths, step)
    if step % 4 == 3:
        print(step, logger.flush(), flush=True)
    dist.barrier()
dist.destroy_process_group()
