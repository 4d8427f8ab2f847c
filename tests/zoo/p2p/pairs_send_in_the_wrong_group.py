"""Two pairs of stages: in both the first stage sends in the default group, not in its pair's.

One mistake, made by the same line in both pairs: it is to be said once.

ranks: 4
expect: p2p_unmatched deadlock group_mismatch
suspects: none
status: hung
cause: rank 0; rank 1; group*; SENT; BUG; /\\b2 of 2\\b/ | both pairs | both groups | ranks 2-3 |
    all 2 groups | same error | /ranks 2 and 3/ | each pair
fix: same group | group
never: wrong tag; wrong peer; drop_last; same number of iterations
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, TWIN, init


class Stage:
    """One of the two halves of a model; two replicas of it make four ranks."""

    def __init__(self, rank: int, pair: dist.ProcessGroup) -> None:
        self.rank, self.pair = rank, pair
        self.is_first = rank % 2 == 0

    def send_activation(self, activation: torch.Tensor) -> None:
        group = self.pair if TWIN else None
        dist.send(activation, dst=self.rank + 1, group=group)  # SENT

    def receive_activation(self) -> torch.Tensor:
        activation = torch.empty(6)
        dist.recv(activation, src=self.rank - 1, group=self.pair)  # BUG
        return activation

    def forward(self, step: int) -> torch.Tensor:
        if self.is_first:
            activation = torch.full((6,), float(step))
            self.send_activation(activation)
            return activation
        return self.receive_activation().relu()


rank = init()
pairs = [dist.new_group(ranks, timeout=TIMEOUT) for ranks in ([0, 1], [2, 3])]
stage = Stage(rank, pairs[rank // 2])
for step in range(3):
    loss = stage.forward(step).sum()
    dist.all_reduce(loss)
dist.destroy_process_group()
