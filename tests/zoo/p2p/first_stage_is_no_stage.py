"""A stage sends its gradient on only to a truthy predecessor, and the first stage is number 0.

ranks: 3
expect: p2p_unmatched deadlock
suspects: none
status: hung
cause: rank 0; rank 1; WAITS | BUG
fix: send* | recv* | receive* | message
never: drop_last; join(); rank 2 left out; dtype
"""

import torch
import torch.distributed as dist
from torch import nn

from tests.zoo.common import TWIN, init

ROWS, DIM, MICRO = 3, 4, 2


def present(peer: int | None) -> bool:
    return peer is not None if TWIN else bool(peer)


class Pipe:
    def __init__(self, rank: int, world: int) -> None:
        torch.manual_seed(rank)
        self.part = nn.Linear(DIM, DIM)
        self.before = rank - 1 if rank > 0 else None
        self.behind = rank + 1 if rank + 1 < world else None
        self.optimizer = torch.optim.SGD(self.part.parameters(), lr=0.05)

    def take_input(self, batch: torch.Tensor) -> torch.Tensor:
        if self.before is not None:
            batch = torch.empty(ROWS, DIM)
            dist.recv(batch, self.before)
        return batch.requires_grad_()

    def hand_on(self, out: torch.Tensor) -> None:
        if self.behind is not None:
            dist.send(out.detach(), self.behind)

    def take_gradient(self, out: torch.Tensor) -> None:
        if self.behind is None:
            out.square().mean().backward()  # type: ignore[no-untyped-call]
            return
        grad = torch.empty(ROWS, DIM)
        dist.recv(grad, self.behind)  # WAITS
        out.backward(grad)  # type: ignore[no-untyped-call]

    def hand_back(self, grad: torch.Tensor, frozen: set[int]) -> None:
        if present(self.before) and self.before not in frozen:
            dist.send(grad, self.before)  # BUG

    def step(self, batches: list[torch.Tensor], frozen: set[int]) -> None:
        runs = []
        for batch in batches:
            x = self.take_input(batch)
            out = self.part(x)
            self.hand_on(out)
            runs.append((x, out))
        for x, out in runs:
            if dist.get_rank() not in frozen:
                self.take_gradient(out)
                self.hand_back(x.grad, frozen)  # type: ignore[arg-type]
        self.optimizer.step()
        self.optimizer.zero_grad()


def main() -> None:
    rank = init()
    pipe = Pipe(rank, 3)
    for epoch in range(2):
        frozen = {0} if epoch == 0 else set()
        for _ in range(3):
            pipe.step([torch.randn(ROWS, DIM) for _ in range(MICRO)], frozen)
            dist.barrier()
    dist.destroy_process_group()


main()
