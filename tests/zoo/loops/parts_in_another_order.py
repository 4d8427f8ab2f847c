"""The parts of a checkpoint are gathered in the order of a listing: another on rank 2.

One line calls the same method of each, so that no line and no condition tells the ranks apart.

ranks: 3
expect: op_mismatch
suspects: 2
status: diverged
cause: rank 2; BUG | Weights.state | Averages.state; order; LOOP | PART
fix: one order | sorted
never: logs do not show; drop_last; rank == 0
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


class Weights:
    def state(self) -> torch.Tensor:
        parts = [torch.ones(4) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, torch.ones(4))  # BUG
        return torch.cat(parts)


class Averages:
    def state(self) -> torch.Tensor:
        averages = torch.ones(3)
        dist.all_reduce(averages)  # BUG
        return averages


def listed(rank: int) -> list[str]:
    found = ["averages", "weights"] if rank == 2 else ["weights", "averages"]
    return sorted(found) if TWIN else found


def save(parts: list[Weights | Averages]) -> list[torch.Tensor]:
    return [part.state() for part in parts]  # PART


rank = init()
kinds: dict[str, type[Weights] | type[Averages]] = {"weights": Weights, "averages": Averages}
for step in range(6):
    dist.all_reduce(torch.ones(2))
    if step == 3:
        save([kinds[name]() for name in listed(rank)])
