"""In the fourth window all of rank 2's answers are masked: its second metric keeps its first type.

ranks: 3
expect: dtype_mismatch
suspects: 2
status: diverged
cause: rank 2; BUG; float32; float64
fix: dtype
never: turn; order; set; one more; left out
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()


class Mean:
    def __init__(self) -> None:
        self.values: list[torch.Tensor] = [torch.zeros(1)]

    def add(self, values: torch.Tensor) -> None:
        self.values += [values] if len(values) else []

    def read(self) -> torch.Tensor:
        result, self.values = torch.cat(self.values).sum(), [torch.zeros(1)]
        dist.all_reduce(result)  # BUG
        return result


loss, accuracy = Mean(), Mean()
for step in range(24):
    gradient = torch.ones(5)
    dist.all_reduce(gradient)
    is_masked = rank == 2 and step // 4 == 3 and not TWIN
    loss.add(torch.ones(3))
    accuracy.add(torch.ones(0 if is_masked else 3, dtype=torch.float64))
    if step % 4 == 3:
        print(step, loss.read(), accuracy.read())
