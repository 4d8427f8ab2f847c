"""The encoder is frozen after its warm-up, and autograd no longer runs what receives its gradient.

The decoder sends a gradient for every batch, as before, while the encoder sends the next features.

ranks: 2
expect: deadlock
suspects: none
status: hung
cause: rank 0; BUG; autograd; needs a gradient; FEATURES
fix: requires_grad_; outside of autograd; let rank 1 leave out its send
never: batch_isend_irecv; drop_last; another tag; died
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from tests.zoo.common import TWIN, init

SHAPE, WARM_UP = (4, 8), 4


class Hand(torch.autograd.Function):
    """Features go to the decoder, and what comes back is their gradient."""

    @staticmethod
    def forward(_: Any, features: torch.Tensor) -> torch.Tensor:
        dist.send(features.detach(), dst=1)  # FEATURES
        return features.sum()

    @staticmethod
    def backward(_: Any, *__: torch.Tensor) -> torch.Tensor:
        gradient = torch.empty(SHAPE)
        dist.recv(gradient, src=1)  # BUG
        return gradient


def encode(batches: int) -> None:
    encoder = nn.Linear(8, 8)
    for n in range(batches):
        if n == WARM_UP:
            encoder.requires_grad_(requires_grad=False)
        features = encoder(torch.ones(SHAPE))
        if TWIN:
            features.requires_grad_()
        handed: torch.Tensor = Hand.apply(features)  # type: ignore[no-untyped-call]
        if handed.requires_grad:
            handed.backward()  # type: ignore[no-untyped-call]


def decode(batches: int) -> None:
    decoder = nn.Linear(8, 2)
    for _ in range(batches):
        features = torch.empty(SHAPE)
        dist.recv(features, src=0)
        (gradient,) = torch.autograd.grad(decoder(features.requires_grad_()).sum(), features)
        dist.send(gradient, dst=0)


rank = init()
(encode, decode)[rank](batches=8)
