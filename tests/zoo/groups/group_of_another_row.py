"""Each rank picks its group by its column, not by its row: two of four are not in what they pick.

torch ignores the call of a rank that is not in the group, with a warning.

ranks: 4
expect: deadlock missing_call
suspects: 1 2
status: hung crashed
cause: BUG; not in; torch ignored
fix: the group that has the rank as a member; group 1; group 2
never: barrier (line; different orders; random
"""

import warnings

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, TWIN, init

WIDTH = 2


class Grid:
    def __init__(self, rank: int) -> None:
        rows = [dist.new_group([one, one + 1], timeout=TIMEOUT) for one in (0, 2)]
        self.row = rows[rank // WIDTH if TWIN else rank % WIDTH]

    def total(self, part: torch.Tensor) -> torch.Tensor:
        dist.all_reduce(part, group=self.row)  # BUG
        return part


warnings.simplefilter("ignore", UserWarning)
grid = Grid(init())
for _ in range(3):
    grid.total(torch.ones(4))
dist.barrier()
