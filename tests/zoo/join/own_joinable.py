"""A joinable of the user's own counts samples; its shadow reduces another size than the original.

expect: shape_mismatch
suspects: none
status: diverged
cause: rank 0; rank 1; out of inputs | ran out | join(); BUG; float32[2]; float32[1]
fix: shadow | hook | main_hook | same size | size
never: drop_last; ragged; out of the `with; model.join()
"""

from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join, Joinable, JoinHook

from tests.zoo.common import TWIN, init


class Shadow(JoinHook):
    def main_hook(self) -> None:
        dist.all_reduce(torch.zeros(2 if TWIN else 1))  # BUG


class Counter(Joinable):
    """Counts samples and batches over all ranks."""

    def __init__(self) -> None:
        super().__init__()

    def __call__(self, samples: int) -> None:
        Join.notify_join_context(self)
        dist.all_reduce(torch.tensor([samples, 1.0]))  # BUG

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
with Join([counter]):
    for _ in range(3 + rank):
        counter(8)
