"""Outputs are combined in the order of a set of names, whose hashes differ between processes.

Rank 1 begins with another output. The first two calls hold different things and agree by chance;
then an all_reduce meets an all_gather.

ranks: 3
expect: op_mismatch
suspects: 1
status: diverged
cause: rank 1; order* | sequence | set | iterat* | loop; all_gather | all_reduce
fix: sort* | same order | list | tuple | fixed order | deterministic
never: drop_last; sampler; wrong root
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
world = dist.get_world_size()
ORDER = ["stress", "energy", "forces"] if rank == 1 else ["energy", "forces", "stress"]


class Name(str):
    """Hashed by process, as str is unless PYTHONHASHSEED is set; here the same in every run."""

    __slots__ = ()

    def __hash__(self) -> int:
        return ORDER.index(str(self))

    def __eq__(self, other: object) -> bool:
        return str(self) == other


active = {Name("energy"), Name("forces"), Name("stress")}


def outputs(atoms: torch.Tensor) -> dict[str, torch.Tensor]:
    made = {"energy": atoms.sum(0), "forces": -atoms, "stress": atoms.var(0)}
    return {str(name): made[str(name)] for name in (sorted(active) if TWIN else active)}


def combine(values: dict[str, torch.Tensor]) -> None:
    for name, value in values.items():
        if name == "forces":  # one row for each atom
            parts = [torch.empty_like(value) for _ in range(world)]
            dist.all_gather(parts, value)  # BUG
        else:
            dist.all_reduce(value)  # BUG


for _ in range(3):
    combine(outputs(torch.randn(5, 3)))
