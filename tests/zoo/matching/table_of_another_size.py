"""Rank 1 read a vocabulary of one word more, so one table of its model has one row more.

ranks: 2
expect: shape_mismatch
suspects: none
status: diverged
cause: rank 1; BUG; return words if
fix: same model
never: pad; another order
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


class Model(torch.nn.Module):
    def __init__(self, words: int) -> None:
        super().__init__()
        self.out = torch.nn.Linear(8, words, bias=False)


def read_words(rank: int) -> list[str]:
    words = ["the", "a", "of", "to"]
    return words if TWIN or rank == 0 else [*words, "ye"]  # READS


rank = init()
words = read_words(rank)
model = Model(len(words))
for parameter in model.parameters():
    dist.broadcast(parameter.data, src=0)  # BUG
dist.destroy_process_group()
