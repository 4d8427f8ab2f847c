"""A metric gathers the elements of its list state one by one: rank 0 has four, rank 1 has two.

ranks: 2
expect: op_mismatch shape_mismatch missing_call
suspects: none
status: diverged
cause: rank 0; rank 1; LOOP; BUG; another iteration | fewer iterations |
    /\\b4\\b.*\\b2\\b/ | /\\b2\\b.*\\b4\\b/
fix: LOOP | elements | concat* | torch.cat; same number | one tensor | torch.cat | concat*
never: join(); depends on the rank; move barrier; /[Mm]ove \\w+ out of/; begun another epoch
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def gather_all_tensors(result: torch.Tensor) -> list[torch.Tensor]:
    """All ranks' tensors, of any length."""
    dist.barrier()  # BUG
    world = dist.get_world_size()
    sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(world)]
    dist.all_gather(sizes, torch.tensor([len(result)]))
    longest = int(torch.cat(sizes).max())
    padded = torch.zeros(longest)
    padded[: len(result)] = result
    parts = [torch.zeros(longest) for _ in range(world)]
    dist.all_gather(parts, padded)  # BUG
    return [part[: int(size)] for part, size in zip(parts, sizes, strict=True)]


class Metric:
    """With list states, which grow by an element a batch."""

    def __init__(self) -> None:
        self.scores: list[torch.Tensor] = []

    def update(self, scores: torch.Tensor) -> None:
        self.scores.append(scores)

    def sync(self) -> None:
        if TWIN:
            self.scores = [torch.cat(self.scores)]
        gathered = []
        for element in self.scores:  # LOOP
            gathered += gather_all_tensors(element)
        self.scores = gathered

    def compute(self) -> float:
        self.sync()
        return float(torch.cat(self.scores).mean())


rank = init()
metric = Metric()
for batch in torch.ones(2 if rank == 1 else 4, 3):
    metric.update(batch)
print(metric.compute(), flush=True)
count = torch.ones(2)
dist.all_reduce(count)
dist.destroy_process_group()
