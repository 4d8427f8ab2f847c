"""When all is trained rank 0 saves once more, alone; saving ends in a barrier.

That pairs with the others' next one, and rank 0 then waits alone.

ranks: 3
expect: role_mismatch missing_call
suspects: 0
status: diverged hung
cause: rank 0; COND; extra; is_global_zero; true on rank 0; ALIASES | finalize_aliases
fix: COND; every rank; same branch
never: /ranks? (1|2|1,2|1-2) (is|are) (to blame|wrong|guilty)/; /suspects?:? ranks? [12]/;
    /ranks? (1,2|1-2) (ended|finished|left|stopped) too early/; drop_last; join()
"""

import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from tests.zoo.common import TWIN, init


class Strategy:
    def __init__(self, rank: int, sharded_state: bool = False) -> None:
        self.rank, self.sharded_state = rank, sharded_state

    def barrier(self, name: str) -> None:
        dist.barrier()

    def reduce(self, tensor: torch.Tensor) -> torch.Tensor:
        dist.all_reduce(tensor)
        return tensor / dist.get_world_size()


class Trainer:
    def __init__(
        self, strategy: Strategy, folder: str, max_epochs: int = 2, steps: int = 5
    ) -> None:
        self.strategy, self.folder = strategy, Path(folder)
        self.max_epochs, self.steps = max_epochs, steps

    @property
    def is_global_zero(self) -> bool:
        return self.strategy.rank == 0

    def fit(self, model: nn.Module) -> None:
        self.model, optimizer = model, torch.optim.SGD(model.parameters(), lr=0.05)
        for epoch in range(self.max_epochs):
            for _ in range(self.steps):
                optimizer.zero_grad()
                model(torch.randn(16, 4)).pow(2).mean().backward()
                for p in model.parameters():
                    p.grad = self.strategy.reduce(p.grad)  # type: ignore[arg-type]
                optimizer.step()
            self.save_checkpoint(f"epoch={epoch}.ckpt")

    def save_checkpoint(self, name: str) -> None:
        if self.is_global_zero:
            torch.save(self.model.state_dict(), self.folder / name)
        self.strategy.barrier("Trainer.save_checkpoint")


def finalize_aliases(trainer: Trainer) -> None:
    if trainer.is_global_zero:
        newest = max(trainer.folder.glob("epoch=*.ckpt"))
        (trainer.folder / "last.ckpt").write_bytes(newest.read_bytes())
    trainer.strategy.barrier("checkpoint-alias-finalize")  # ALIASES


def run_training(rank: int, folder: str) -> None:
    torch.manual_seed(rank)
    trainer = Trainer(Strategy(rank, sharded_state=TWIN), folder)
    trainer.fit(nn.Linear(4, 1))
    if trainer.is_global_zero or trainer.strategy.sharded_state:  # COND
        trainer.save_checkpoint("final.ckpt")  # BUG
    finalize_aliases(trainer)


rank = init()
with tempfile.TemporaryDirectory() as folder:
    run_training(rank, folder)
dist.destroy_process_group()
