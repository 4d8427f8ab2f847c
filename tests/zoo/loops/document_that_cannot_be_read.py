"""Two ranks index documents; rank 1 cannot read the seventh: the handler of that gives it up alone.

Six equal rounds stand before it, all of a round is in one function, and nothing else in it leads
past the call.

ranks: 2
expect: op_mismatch shape_mismatch
suspects: 1
status: diverged
cause: rank 1; BUG; LEFT; 6 equal rounds; /except OSError/
fix: raise* | learn* | agree*; every rank | all ranks
never: rank 0 left out; drop_last; loop ended
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def read(number: int) -> torch.Tensor:
    if number == 7 and dist.get_rank() == 1 and not TWIN:
        raise OSError("document 7 is damaged")
    return torch.full((5,), float(number))


class Indexer:
    def __init__(self) -> None:
        self.total = torch.zeros(5)

    def next_document(self, number: int) -> int:
        chosen = torch.tensor([number])
        dist.broadcast(chosen, src=0)  # BUG
        return int(chosen)

    def index(self, number: int) -> None:
        chosen = self.next_document(number)
        try:
            text = read(chosen)
        except OSError:
            return
        dist.all_reduce(text)  # LEFT
        self.total += text
        dist.barrier()


init()
indexer = Indexer()
for number in range(1, 11):
    indexer.index(number)
