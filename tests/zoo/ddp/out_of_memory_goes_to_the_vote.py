"""Rank 1 runs out of memory in a forward pass and goes to the vote on it; the others go backward.

ranks: 3
expect: role_mismatch shape_mismatch
suspects: 1
status: diverged
cause: rank 1; BUG; VOTE; out of memory
fix: FOUND | LEAVES | CAUGHT | VOTE | error flag; together | agree* | vote* | all_reduce | raise*
never: /ranks? 0,2 (is|are) (wrong|to blame|guilty|the suspects?)/; model.join(); drop_last;
    /rank [02] (is|are) (wrong|to blame|guilty|the suspects?)/
"""

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init


class Net(nn.Module):
    """Stands for a model on a device: it holds `memory` tokens of activations and no more."""

    def __init__(self, memory: int) -> None:
        super().__init__()
        self.memory = memory
        self.layers = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        if tokens.shape[0] * tokens.shape[1] > self.memory:
            raise RuntimeError(f"CUDA out of memory. Tried to allocate {tokens.numel() * 4} bytes")
        out: torch.Tensor = self.layers(tokens)
        return out


class Trainer:
    def __init__(self, model: nn.Module, check_forward: bool) -> None:
        self.model, self.check_forward = model, check_forward
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        self.microbatch = 8

    def any_rank(self, flag: bool) -> bool:
        flags = torch.tensor([float(flag)])
        dist.all_reduce(flags)  # VOTE
        return bool(flags.item())

    def attempt(self, batch: torch.Tensor) -> bool:
        found_oom = False
        for tokens in batch.split(self.microbatch):  # type: ignore[no-untyped-call]
            try:
                loss = self.model(tokens).square().mean()
            except RuntimeError as error:  # CAUGHT
                if "out of memory" not in str(error):
                    raise
                found_oom = True
            if self.check_forward:
                found_oom = self.any_rank(found_oom)
            if found_oom:  # FOUND
                break  # LEAVES
            loss.backward()  # BUG
        return found_oom

    def train_batch(self, batch: torch.Tensor) -> None:
        while True:
            self.optimizer.zero_grad()
            found_oom = self.any_rank(self.attempt(batch))
            if not found_oom:
                break
            self.microbatch //= 2
        self.optimizer.step()


def batches(rank: int) -> Iterator[torch.Tensor]:
    generator = torch.Generator().manual_seed(rank)
    for length in (4, 6, 8, 8, 12, 6, 10):
        yield torch.randn(8, length, 8, generator=generator)


def main(rank: int) -> None:
    # Another tenant holds a part of the second card.
    model = DistributedDataParallel(Net(memory=80 if rank == 1 else 128))
    trainer = Trainer(model, check_forward=TWIN)
    for batch in batches(rank):
        trainer.train_batch(batch)


main(init())
dist.destroy_process_group()
