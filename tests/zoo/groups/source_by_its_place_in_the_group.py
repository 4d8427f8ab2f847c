"""The leader of a pair is named by its place in the pair; torch refuses that on ranks 2 and 3.

They meet nobody in the barrier that they come to by `finally`.

ranks: 4
expect: op_mismatch missing_call
suspects: 2 3
status: diverged hung
cause: ranks 2-3; ValueError | not part of group; BUG; CALL
fix: all ranks | every rank; not part of group
never: network; ambiguous
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


class Replica:
    def __init__(self, rank: int) -> None:
        pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
        self.pair = pairs[rank // 2]
        self.leader = 0 if not TWIN else 2 * (rank // 2)

    def configure(self) -> None:
        told = [{"width": 4}]
        dist.broadcast_object_list(told, src=self.leader, group=self.pair)  # CALL

    def step(self) -> None:
        dist.all_reduce(torch.ones(3))  # BUG

    def close(self) -> None:
        dist.barrier()  # BUG


rank = init()
replica = Replica(rank)
try:
    replica.configure()
    for _ in range(4):
        replica.step()
finally:
    replica.close()
dist.destroy_process_group()
