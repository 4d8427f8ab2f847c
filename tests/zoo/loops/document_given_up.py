"""Two ranks index documents; rank 1 cannot read the seventh, and gives it up alone.

Six equal rounds stand before it, and all of a round is in one function. But what led rank 1 past
the call is a condition on what it holds, of which either may have had the right value.

ranks: 2
expect: op_mismatch shape_mismatch
suspects: none
status: diverged
cause: rank 1; BUG; LEFT; 6 equal rounds; return | exception
fix: agree; every rank | all ranks
never: rank 0 left out; drop_last; loop ended
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def read(number: int) -> torch.Tensor | None:
    if number == 7 and dist.get_rank() == 1:
        return None
    return torch.full((5,), float(number))


class Indexer:
    def __init__(self) -> None:
        self.total = torch.zeros(5)

    def next_document(self, number: int) -> int:
        chosen = torch.tensor([number])
        dist.broadcast(chosen, src=0)  # BUG
        return int(chosen)

    def all_have(self, text: torch.Tensor | None) -> bool:
        found = torch.tensor([float(text is not None)])
        if TWIN:
            dist.all_reduce(found, op=dist.ReduceOp.MIN)
        return bool(found)

    def index(self, number: int) -> None:
        text = read(self.next_document(number))
        if not self.all_have(text):
            return
        assert text is not None
        self.add(text)

    def add(self, text: torch.Tensor) -> None:
        dist.all_reduce(text)  # LEFT
        self.total += text
        dist.barrier()


init()
indexer = Indexer()
for number in range(1, 11):
    indexer.index(number)
