"""Rank 2, which writes the report, alone runs one more pass, and waits for its first activation.

ranks: 3
expect: missing_call p2p_unmatched deadlock
suspects: 2
status: hung
cause: rank 2; BUG | RECV; is_last_rank
fix: every rank | all ranks | every stage | all stages
never: drop_last; join(); /ranks? (0,1|0-1|0 and 1) (is wrong|are wrong|raised)/
"""

from collections.abc import Callable, Iterator

import torch
import torch.distributed as dist
from torch import nn

from tests.zoo.common import TWIN, init

MICRO, WIDTH = 4, 8


def is_last_rank() -> bool:
    return dist.get_rank() == dist.get_world_size() - 1


def is_first_rank() -> bool:
    return dist.get_rank() == 0


def recv_forward() -> torch.Tensor:
    x = torch.empty(MICRO, WIDTH)
    dist.recv(x, src=dist.get_rank() - 1)  # RECV
    return x.requires_grad_()


def recv_backward() -> torch.Tensor:
    grad = torch.empty(MICRO, WIDTH)
    dist.recv(grad, src=dist.get_rank() + 1)
    return grad


def forward_backward(
    stage: nn.Module,
    data: Iterator[torch.Tensor],
    num_microbatches: int,
    forward_only: bool = False,
) -> list[torch.Tensor]:
    """All forward passes, then all backward passes (GPipe)."""
    losses, held = [], []
    for _ in range(num_microbatches):
        x = next(data) if is_first_rank() else recv_forward()
        y = torch.tanh(stage(x))
        if is_last_rank():
            y = y.square().mean()
            losses.append(y.detach())
        else:
            dist.send(y.detach(), dst=dist.get_rank() + 1)
        held.append((x, y))
    if not forward_only:
        for x, y in held:
            y.backward(None if is_last_rank() else recv_backward())  # type: ignore[no-untyped-call]
            if not is_first_rank():
                dist.send(x.grad, dst=dist.get_rank() - 1)  # type: ignore[arg-type]
    return losses


def samples() -> Iterator[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    while True:
        yield torch.randn(MICRO, WIDTH, generator=generator)


def evaluate(
    stage: nn.Module,
    data: Iterator[torch.Tensor],
    non_loss_func: Callable[[list[torch.Tensor]], None] | None = None,
) -> float:
    losses = forward_backward(stage, data, num_microbatches=2, forward_only=True)
    if non_loss_func is not None and (is_last_rank() or TWIN):
        collected = forward_backward(stage, data, num_microbatches=1, forward_only=True)  # BUG
        if is_last_rank():
            non_loss_func(collected)
    mean = torch.stack(losses).mean() if losses else torch.zeros(())
    dist.all_reduce(mean)  # only the last stage has it
    return mean.item()


def pretrain(stage: nn.Module, iterations: int, eval_interval: int) -> float:
    data, optimizer = samples(), torch.optim.SGD(stage.parameters(), lr=0.1)
    for iteration in range(1, iterations + 1):
        forward_backward(stage, data, num_microbatches=3)
        optimizer.step()
        optimizer.zero_grad()
        if iteration % eval_interval == 0:
            evaluate(stage, data)
    return evaluate(stage, data, non_loss_func=lambda outputs: print("for the report:", outputs))


def main() -> None:
    rank = init()
    torch.manual_seed(rank)
    pretrain(nn.Linear(WIDTH, WIDTH), iterations=6, eval_interval=2)
    dist.destroy_process_group()


main()
