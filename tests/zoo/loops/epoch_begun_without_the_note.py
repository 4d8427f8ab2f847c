"""Behind each epoch a note is agreed on, and one rank goes past it, into the next epoch's loop.

That loop did not end earlier on the other rank: it may as well have been begun again.

ranks: 2
expect: op_mismatch
suspects: none
status: diverged
cause: rank 1; broadcast; NOTE; BUG; except IndexError; /rank 1 (handled|raised|caught)/
fix: epoch_begun_without_the_note.py:32; error flag; exception that only rank 1 raised; every rank
never: ended earlier; once more
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def train(parts: int) -> None:
    for _ in range(parts):
        dist.all_reduce(torch.ones(4))  # BUG


class Journal:
    def __init__(self, pages: int) -> None:
        self.pages = [""] * pages

    def note(self, epoch: int) -> None:
        try:
            self.pages[epoch] = "done"
        except IndexError:
            return
        dist.broadcast(torch.ones(2), src=0)  # NOTE


def main() -> None:
    rank = init()
    journal = Journal(pages=1 if rank and not TWIN else 9)
    for epoch in range(3):
        train(parts=3)
        journal.note(epoch)


main()
