"""The last stage sends a skip's gradient first, and the three stages wait in a circle.

ranks: 3
expect: deadlock
suspects: none
status: hung
cause: BUG; FIRST; each other | circle | cycle | circular | in turn
fix: order | before | first | isend | irecv | batch_isend_irecv
never: drop_last; join(); rank 1 alone; rank 1 left out
"""

import torch
import torch.distributed as dist
from torch import nn

from tests.zoo.common import TWIN, init

ROWS, DIM = 4, 5


class Stage:
    """One third of a U-Net; `inputs` and `outputs` name the stages it is wired to."""

    def __init__(self, module: nn.Module, inputs: list[int], outputs: list[int]) -> None:
        self.module, self.inputs, self.outputs = module, inputs, outputs
        self.optimizer = torch.optim.SGD(module.parameters(), lr=0.01)

    def receive_activations(self) -> dict[int, torch.Tensor]:
        received = {}
        for peer in self.inputs:
            received[peer] = torch.empty(ROWS, DIM)
            dist.recv(received[peer], peer)
        return {peer: x.requires_grad_() for peer, x in received.items()}

    def receive_gradient(self, wanted: list[int]) -> torch.Tensor:
        total = torch.zeros(ROWS, DIM)
        for peer in self.outputs:
            if peer in wanted:
                grad = torch.empty(ROWS, DIM)
                dist.recv(grad, peer)  # FIRST
                total += grad
        return total

    def send_gradients(self, received: dict[int, torch.Tensor], wanted: list[int]) -> None:
        for peer in sorted(wanted, reverse=TWIN):
            dist.send(received[peer].grad, peer)  # type: ignore[arg-type]  # BUG

    def step(self, rank: int, batch: torch.Tensor, trained: list[tuple[int, int]]) -> None:
        received = self.receive_activations()
        out = self.module(sum(received.values()) if received else batch)
        for peer in self.outputs:
            dist.send(out.detach(), peer)
        if self.outputs:
            out.backward(self.receive_gradient([b for a, b in trained if a == rank]))
        else:
            out.square().mean().backward()
        self.send_gradients(received, [a for a, b in trained if b == rank])
        self.optimizer.step()
        self.optimizer.zero_grad()


def main() -> None:
    rank = init()
    torch.manual_seed(rank)
    wires = [(0, 1), (0, 2), (1, 2)]
    stage = Stage(
        nn.Linear(DIM, DIM), [a for a, b in wires if b == rank], [b for a, b in wires if a == rank]
    )
    for epoch in range(2):
        trained = [
            wire for wire in wires if epoch or wire != (0, 2)
        ]  # at first the skip is detached
        for _ in range(3):
            stage.step(rank, torch.randn(ROWS, DIM), trained)
        dist.barrier()
    dist.destroy_process_group()


main()
