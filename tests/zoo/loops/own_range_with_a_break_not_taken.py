"""A loop has nine steps on rank 1 and ten elsewhere; the break in it is taken by nobody.

It looks like a rank that left by a break; here the loop itself has another length.

ranks: 3
expect: op_mismatch missing_call
suspects: 1
status: diverged hung
cause: rank 1; LOOP; fewer iterations | ended earlier | loop ended; BUG
fix: LOOP; same number
never: extra call; join(); depends on the rank; ambiguous
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


class Reader:
    """The batches of a rank's files."""

    def __init__(self, files: list[int]) -> None:
        self.files = files

    def __len__(self) -> int:
        return sum(self.files)


def train(reader: Reader) -> torch.Tensor:
    weight = torch.ones(4)
    for step in range(len(reader)):  # LOOP
        gradient = weight * 0.1
        dist.all_reduce(gradient)  # BUG
        weight -= gradient / dist.get_world_size()
        norm = weight.norm()
        if norm > 100.0:
            print("diverges in step", step, flush=True)
            break
    return weight


rank = init()
files = [3, 3, 3] if rank == 1 and not TWIN else [4, 3, 3]
weight = train(Reader(files))
dist.barrier()
print(float(weight.mean()), flush=True)
dist.destroy_process_group()
