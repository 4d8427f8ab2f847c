"""The first rank prepares a file before the others, by two guards; and makes a call in its turn.

The barrier of the others is met by the first rank's, from another line: it is not to blame.

ranks: 2
expect: op_mismatch
suspects: none
status: diverged
cause: rank 0; all_reduce; BUG; barrier; WAITS; ambiguous
fix: every rank
never: Only rank 1
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def wait_for_the_first(rank: int) -> None:
    if rank == 0:
        return
    dist.barrier()  # WAITS


def let_the_others_in(rank: int) -> None:
    if rank != 0:
        return
    dist.barrier()


def prepare() -> float:
    size = torch.ones(1)
    (print if TWIN else dist.all_reduce)(size)  # BUG
    return size.item()


def main() -> None:
    rank = init()
    dist.all_reduce(torch.ones(3))
    wait_for_the_first(rank)
    prepare()
    let_the_others_in(rank)
    dist.all_reduce(torch.ones(2))


main()
