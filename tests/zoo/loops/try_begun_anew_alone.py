"""Rank 1 is refused behind the barrier of a try, catches that, and begins the next try alone.

ranks: 2
expect: op_mismatch
suspects: none
status: diverged
cause: rank 1; BUG; once more; HANDLER; TRIES
fix: HANDLER; error flag; all ranks; same calls
never: loop ended; left out; /if tokens/
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()


class Pool:
    refused = rank == 1 and not TWIN

    def connect(self) -> None:
        if self.refused:
            self.refused = False
            raise ConnectionError("still held by the last client")

    def join(self) -> None:
        dist.barrier()  # BUG
        self.connect()

    def make_ready(self) -> None:
        for _ in range(3):  # TRIES
            try:
                self.join()
                return
            except ConnectionError:  # HANDLER
                print("again")


pool = Pool()
for tokens in (4, 8, 32):
    if tokens > 16:
        pool.make_ready()
    dist.all_reduce(torch.ones(tokens))
