"""A worker keeps what rank 0 told it; rank 0 forgets in step 6 that it gave rank 3 a rest.

ranks: 4
expect: deadlock p2p_unmatched missing_call p2p_mismatch
suspects: none
status: hung diverged
cause: rank 3; rank 0; send
fix: rank 0 | rank 3 | every rank
never: alone
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

STEPS = 10


class Worker:
    def __init__(self) -> None:
        self.resting = False
        self.table = torch.zeros(4)

    def listen(self) -> None:
        note = torch.zeros(1)
        dist.recv(note, src=0)
        self.resting = bool(note.item())

    def push(self) -> None:
        if self.resting:
            return
        dist.send(self.table, dst=0, tag=1)

    def pull(self) -> None:
        dist.recv(self.table, src=0, tag=2)

    def run(self) -> None:
        for _ in range(STEPS):
            self.listen()
            self.push()
            self.pull()


def serve() -> None:
    table = torch.zeros(4)
    for step in range(STEPS):
        for worker in (1, 2, 3):
            rest = not TWIN and (worker, step) == (3, 6)
            dist.send(torch.tensor([float(rest)]), dst=worker)
        for worker in (1, 2, 3):
            dist.recv(torch.zeros(4), src=worker, tag=1)  # BUG
        for worker in (1, 2, 3):
            dist.send(table, dst=worker, tag=2)


serve() if init() == 0 else Worker().run()
