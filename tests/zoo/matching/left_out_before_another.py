"""All are to agree on the vocabulary, once; rank 1 holds an old one and leaves it out.

Nobody had made that call before: the two who made it did what was meant.

ranks: 3
expect: op_mismatch
suspects: 1
status: diverged
cause: rank 1
fix: every rank
never: one call late; on none; made one call more
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


class Vocabulary:
    def __init__(self, rank: int) -> None:
        self.agreed = rank == 1 and not TWIN

    def agree(self) -> None:
        self.agreed or dist.all_reduce(torch.ones(4))  # BUG


rank = init()
vocabulary = Vocabulary(rank)
dist.broadcast(torch.ones(2), src=0)
vocabulary.agree()
dist.all_reduce(torch.ones(4))
dist.broadcast(torch.ones(3), src=0)
dist.barrier()
