"""One Join for two models and a joinable of the user's own, over several epochs.

ranks: 3
expect: nothing
status: aligned
never: /-\\d+ batch/
"""

from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join, Joinable, JoinHook
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import init


class Shadow(JoinHook):
    def main_hook(self) -> None:
        dist.all_reduce(torch.zeros(2))

    def post_hook(self, is_last_joiner: bool) -> None:
        dist.broadcast(torch.ones(2), src=0)


class Counter(Joinable):
    """Counts samples and batches over all ranks."""

    def __init__(self) -> None:
        super().__init__()

    def __call__(self, samples: int) -> None:
        Join.notify_join_context(self)
        dist.all_reduce(torch.tensor([samples, 1.0]))

    def join_hook(self, **kwargs: Any) -> JoinHook:
        return Shadow()

    @property
    def join_device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def join_process_group(self) -> Any:
        return dist.group.WORLD


rank = init()
counter = Counter()
student = DistributedDataParallel(torch.nn.Linear(2, 2))
teacher = DistributedDataParallel(torch.nn.Linear(3, 3))
for _ in range(2):
    with Join([counter, student, teacher]):
        for _ in range(1 + rank):
            counter(8)
            student(torch.ones(1, 2)).sum().backward()
            teacher(torch.ones(1, 3)).sum().backward()
