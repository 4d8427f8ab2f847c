"""Two replicas average metrics in groups of their own; rank 2's meters were made without theirs.

Rank 3 waits for it in the small group, and rank 2's all_reduce over all ranks meets the first such
call of ranks 0 and 1.

ranks: 4
expect: group_mismatch missing_call role_mismatch deadlock
suspects: 2
status: diverged hung
cause: rank 2; group* | world | default
fix: group
never: drop_last; sampler; wrong root; different dtype
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, TWIN, init

rank = init()
replicas = [dist.new_group(ranks, timeout=TIMEOUT) for ranks in ([0, 1], [2, 3])]
mine = replicas[rank // 2]


class Meter:
    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        self.group, self.value = group, torch.zeros(1)

    def average(self) -> float:
        dist.all_reduce(self.value, group=self.group)  # BUG
        mean = self.value.item() / dist.get_world_size(self.group)
        self.value = torch.zeros(1)
        return mean


def make_meters() -> dict[str, Meter]:
    meters = {"loss": Meter(mine), "norm": Meter(mine)}
    if rank == 2:  # this host also reports its throughput, and replaces the meters it extends
        meters = {name: Meter(mine if TWIN else None) for name in meters}
    return meters


def train_step(step: int) -> None:
    gradient = torch.full_like(weight, 0.01 * (rank + step))
    dist.all_reduce(gradient, group=mine)
    weight.sub_(gradient)
    meters["loss"].value += weight.sum()
    meters["norm"].value += gradient.norm()


weight, meters = torch.ones(8), make_meters()
for step in range(1, 7):
    train_step(step)
    if step % 3 == 0:
        line = {name: meter.average() for name, meter in meters.items()}
        tokens = torch.tensor([128.0 * step])
        dist.all_reduce(tokens)
        print(step, line, int(tokens), flush=True)
