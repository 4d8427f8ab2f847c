"""The first stage sends the target to the last, then the activation: all three wait in a circle.

ranks: 3
expect: deadlock
suspects: none
status: hung
cause: rank 0; BUG; RECV | receive_activation; circle | cycle | circular* | each other |
    one another; too early | ONWARD
fix: order* | sequence | isend | irecv | batch_isend_irecv | /send.{0,80} before/ |
    /send.{0,80} after/ | /send.{0,80} first/ | /before .{0,40}send/ | /after .{0,40}send/ |
    /first .{0,40}send/ | /receive.{0,80} before/ | /receive.{0,80} first/ |
    /recv.{0,80} before/ | /recv.{0,80} first/ | /before .{0,40}receiv/ | /before .{0,40}recv/ |
    /first .{0,40}receive/ | /first .{0,40}recv/ | non-blocking | nonblocking | asynchronous*
never: /rank 1 (skipped|left out|is wrong|is to blame)/;
    /rank 2 (skipped|left out|is wrong|is to blame)/
"""

import torch
import torch.distributed as dist
from torch import nn

from tests.zoo.common import TWIN, init

MICRO, WIDTH = 2, 8


class Stage(nn.Module):
    def __init__(self, index: int, count: int, target_early: bool) -> None:
        super().__init__()
        self.index, self.last = index, count - 1
        self.target_early = target_early
        self.block = nn.Linear(WIDTH, WIDTH)
        self.optim = torch.optim.SGD(self.parameters(), lr=0.1)

    def receive_activation(self) -> torch.Tensor:
        x = torch.empty(MICRO, WIDTH)
        dist.recv(x, src=self.index - 1)  # RECV
        return x.requires_grad_()

    def receive_grad(self) -> torch.Tensor:
        grad = torch.empty(MICRO, WIDTH)
        dist.recv(grad, src=self.index + 1)
        return grad

    def update(self) -> None:
        self.optim.step()
        self.optim.zero_grad()

    def train_batch(self, supervised: bool) -> None:
        raise NotImplementedError


class FirstStage(Stage):
    """Has the loader, hence the labels too; the last stage needs them for the loss."""

    def train_batch(self, supervised: bool) -> None:
        sample, target = torch.randn(MICRO, WIDTH), torch.randn(MICRO, WIDTH)
        out = self.block(sample).tanh()
        if supervised and self.target_early:
            dist.send(target, dst=self.last)  # BUG
        dist.send(out.detach(), dst=self.index + 1)  # ONWARD
        if supervised and not self.target_early:
            dist.send(target, dst=self.last)
        out.backward(self.receive_grad())
        self.update()


class MiddleStage(Stage):
    def train_batch(self, supervised: bool) -> None:
        x = self.receive_activation()
        out = self.block(x).tanh()
        dist.send(out.detach(), dst=self.index + 1)
        out.backward(self.receive_grad())
        dist.send(x.grad, dst=self.index - 1)  # type: ignore[arg-type]
        self.update()


class LastStage(Stage):
    def train_batch(self, supervised: bool) -> None:
        x = self.receive_activation()
        out = self.block(x)
        target = torch.zeros(MICRO, WIDTH)
        if supervised:
            dist.recv(target, src=0)
        (out - target).square().mean().backward()
        dist.send(x.grad, dst=self.index - 1)  # type: ignore[arg-type]
        self.update()


def main() -> None:
    rank = init()
    torch.manual_seed(rank)
    roles = [FirstStage, MiddleStage, LastStage]
    stage = roles[rank](rank, len(roles), target_early=not TWIN)
    for step in range(8):
        stage.train_batch(supervised=step >= 4)  # first warm up on silence, then on the labels
    dist.barrier()


main()
dist.destroy_process_group()
