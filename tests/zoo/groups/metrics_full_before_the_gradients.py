"""Metrics are averaged in a group of their own once there are enough, on rank 1 a call too early.

It logged one more, of a sample that was cut: there they are enough before the gradients are summed,
and on the others behind that.

ranks: 3
expect: deadlock
suspects: 1
status: hung
cause: rank 1; BUG; EARLY; GRADS; FULL
fix: FULL | EARLY | BUG; order | same point | same place | same step | same moment
never: /ranks? 0,2 (is|are) (wrong|to blame|guilty)/; drop_last; join();
    /rank [02] (skipped|is wrong|is to blame)/
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

CAPACITY = 6
LENGTHS_BY_RANK = [
    [20, 31, 17, 44, 26, 38, 19, 23, 40],
    [33, 28, 41, 22, 57, 30, 36, 18, 25],
    [25, 19, 36, 30, 27, 45, 21, 39, 32],
]


class MetricBuffer:
    """Collects metrics, and averages them over the ranks when there are enough."""

    def __init__(self) -> None:
        self.group = dist.new_group()
        self.items: list[float] = []
        self.ended = 0
        self.averages: list[float] = []

    def log(self, value: float, end_of_step: bool = False) -> None:
        self.items.append(float(value))
        self.ended += end_of_step
        full = end_of_step and self.ended % 3 == 0 if TWIN else len(self.items) >= CAPACITY
        if full:  # FULL
            stats = torch.tensor([sum(self.items), float(len(self.items))])
            dist.all_reduce(stats, group=self.group)  # BUG
            self.averages.append((stats[0] / stats[1]).item())
            self.items.clear()


class Trainer:
    def __init__(self, rank: int, max_length: int = 48) -> None:
        torch.manual_seed(9)
        self.max_length = max_length
        self.model = torch.nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)
        self.metrics = MetricBuffer()
        self.data = torch.Generator().manual_seed(30 + rank)

    def sync_gradients(self) -> None:
        grads = [p.grad for p in self.model.parameters() if p.grad is not None]
        flat = torch.cat([grad.flatten() for grad in grads])
        dist.all_reduce(flat)  # GRADS
        flat /= dist.get_world_size()
        offset = 0
        for grad in grads:
            grad.copy_(flat[offset : offset + grad.numel()].view_as(grad))
            offset += grad.numel()

    def step(self, length: int) -> None:
        if length > self.max_length:
            self.metrics.log(length - self.max_length)  # how much is cut
            length = self.max_length
        x = torch.randn(length, 4, generator=self.data)
        loss = (self.model(x) - x.sum(1, keepdim=True)).pow(2).mean()
        self.metrics.log(length)  # EARLY
        self.optimizer.zero_grad()
        loss.backward()
        self.sync_gradients()
        self.optimizer.step()
        self.metrics.log(loss.item(), end_of_step=True)


def main() -> None:
    rank = init()
    trainer = Trainer(rank)
    for length in LENGTHS_BY_RANK[rank]:
        trainer.step(length)


main()
dist.destroy_process_group()
