"""From the third round on the last stage of two pipelines takes a mean over all ranks.

It was meant for the two of its own; the stages before wait for what comes back from it.

ranks: 6
expect: deadlock missing_call
suspects: 4 5
status: hung diverged
cause: ranks 4-5; all_reduce; BUG
fix: group
never: rank 0 left; rank 2 left; ambiguous
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, TWIN, init

STAGES, REPLICAS, ROUNDS = 3, 2, 5


class Stage:
    def __init__(self, rank: int) -> None:
        self.rank, self.place = rank, rank // REPLICAS
        groups = [
            dist.new_group([REPLICAS * n + one for one in range(REPLICAS)], timeout=TIMEOUT)
            for n in range(STAGES)
        ]
        self.group = groups[self.place]

    @property
    def is_last(self) -> bool:
        return self.place == STAGES - 1

    def play(self, number: int) -> torch.Tensor:
        x = torch.full((12,), 1.0 + number)
        if self.place:
            dist.recv(x, self.rank - REPLICAS)
        if not self.is_last:
            dist.send(x, self.rank + REPLICAS)
        return x

    def learn(self, x: torch.Tensor, number: int) -> None:
        gradient = torch.ones_like(x)
        if self.is_last:
            gradient = whitened(x, self.group) if number >= 2 else x
        else:
            dist.recv(gradient, self.rank + REPLICAS)
        if self.place:
            dist.send(gradient, self.rank - REPLICAS)
        dist.all_reduce(gradient, group=self.group)


def whitened(x: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
    total = torch.stack([x.sum(), x.square().sum()])
    dist.all_reduce(total, group=group if TWIN else None)  # BUG
    return (x - total[0] / len(x)) / total[1].sqrt()


stage = Stage(init())
for number in range(ROUNDS):
    stage.learn(stage.play(number), number)
dist.destroy_process_group()
