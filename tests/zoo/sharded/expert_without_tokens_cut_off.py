"""Rank 2's expert gets no token in the second layer, whose exchanges its backward() leaves out.

The grad path through the expert is cut by a fresh tensor: two all_to_alls fewer in the backward
pass, so that those of the first layer meet the others' of the second.

ranks: 3
expect: split_mismatch shape_mismatch missing_call op_mismatch role_mismatch
suspects: 2
status: diverged hung
cause: rank 2; BUG | backward; all_to_all*
fix: every rank | all ranks | rank 2 | backward
never: rank 0 skipped; rank 1 skipped
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from tests.zoo.common import TWIN, init

WIDTH, TOKENS, LAYERS, EPOCHS, STEPS = 4, 6, 2, 3, 3


def swap(rows: torch.Tensor, outgoing: list[int], incoming: list[int]) -> torch.Tensor:
    received = rows.new_empty(sum(incoming), rows.shape[1])
    dist.all_to_all_single(received, rows.contiguous(), incoming, outgoing)  # BUG
    return received


class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rows: torch.Tensor, outgoing: list[int], incoming: list[int]
    ) -> torch.Tensor:
        ctx.splits = incoming, outgoing
        return swap(rows, outgoing, incoming)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return swap(grad, *ctx.splits), None, None


def exchange(rows: torch.Tensor, outgoing: list[int], incoming: list[int]) -> torch.Tensor:
    out: torch.Tensor = Exchange.apply(rows, outgoing, incoming)  # type: ignore[no-untyped-call]
    return out


class Expert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(WIDTH, 8), nn.GELU(), nn.Linear(8, WIDTH))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        if rows.shape[0] == 0 and not TWIN:
            return torch.empty(0, WIDTH)  # BUG
        out: torch.Tensor = self.net(rows)
        return out


class Block(nn.Module):
    def __init__(self, index: int) -> None:
        super().__init__()
        self.index, self.expert, self.norm = index, Expert(), nn.LayerNorm(WIDTH)

    def route(self, tokens: torch.Tensor) -> torch.Tensor:
        choice = (tokens * (self.index + 1) + tokens // 3) % dist.get_world_size()
        quiet = (tokens > 40) & (self.index == 1)
        return torch.where(quiet, tokens % 2, choice)

    def forward(self, hidden: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        choice = self.route(tokens)
        order = torch.argsort(choice, stable=True)
        outgoing = torch.bincount(choice, minlength=dist.get_world_size())
        incoming = torch.empty_like(outgoing)
        dist.all_to_all_single(incoming, outgoing)
        there, here = outgoing.tolist(), incoming.tolist()
        rows = exchange(self.norm(hidden)[order], there, here)
        back = exchange(self.expert(rows), here, there)
        return hidden + back[torch.argsort(order)]


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(64, WIDTH)
        self.blocks = nn.ModuleList(Block(index) for index in range(LAYERS))
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.embed(tokens)
        for block in self.blocks:
            hidden = block(hidden, tokens)
        loss: torch.Tensor = self.head(hidden).pow(2).mean()
        return loss


def shared(model: Model) -> list[nn.Parameter]:
    return [p for name, p in model.named_parameters() if ".expert." not in name]


def batch(rank: int, epoch: int, step: int) -> torch.Tensor:
    start = 42 if (epoch, step) == (1, 1) else 3 * rank + 5 * step + epoch
    return torch.arange(start, start + TOKENS)


def train(rank: int) -> None:
    torch.manual_seed(7)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(EPOCHS):
        for step in range(STEPS):
            optimizer.zero_grad()
            model(batch(rank, epoch, step)).backward()  # BUG
            for parameter in shared(model):
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM)
            optimizer.step()
        print(f"epoch {epoch} done", flush=True)


train(init())
dist.destroy_process_group()
