"""Behind each epoch a note is agreed on, and in the third one rank comes to it after fewer parts.

Past the note lead ways, as into the next epoch; but all had come to it after more parts before.

ranks: 2
expect: op_mismatch
suspects: none
status: diverged
cause: BUG; `for _ in range(parts):`; fewer iterations on rank 1; train(parts=3
fix: same number of iterations; `parts`
never: went past; on for longer
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def train(parts: int) -> None:
    for _ in range(parts):
        dist.all_reduce(torch.ones(4))  # BUG


def note(pages: list[str], epoch: int) -> None:
    try:
        pages[epoch] = "done"
    except IndexError:
        return
    dist.broadcast(torch.ones(2), src=0)  # NOTE


def main() -> None:
    rank = init()
    pages = [""] * 9
    for epoch in range(4):
        train(parts=3 if (rank, epoch) == (1, 2) and not TWIN else 4)
        note(pages, epoch)


main()
