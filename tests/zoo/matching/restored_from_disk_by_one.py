"""Rank 2 came back on another machine and restores from disk, where an iteration is agreed on.

The others restore from memory, and sum up the samples seen already.

ranks: 3
expect: reduce_op_mismatch role_mismatch
suspects: 2
status: diverged
cause: rank 2; BUG; SEEN; HIT | MEMORY
fix: HIT | MEMORY | DISK; every rank | all ranks | all of them | each rank
never: /ranks? (0|1|0,1|0-1) (is|are) (to blame|wrong|guilty)/; /suspects?:? ranks? [01]/;
    drop_last; join()
"""

import tempfile
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch import nn

from tests.zoo.common import TWIN, init

STORAGE_EVERY, REPLACED = 4, 2
TRACKER = "latest_checkpointed_iteration.txt"


class FlashCheckpointer:
    """Keeps the newest state in the agent's shared memory, an older one on disk."""

    memory: ClassVar[dict[str, Any]] = {}  # outlives the workers of one attempt

    def __init__(self, root: str, prefer_memory: bool = True) -> None:
        self.root, self.prefer_memory = Path(root), prefer_memory

    def save(self, iteration: int, model: nn.Module) -> None:
        weights = {k: v.clone() for k, v in model.state_dict().items()}
        state = {"iteration": iteration, "model": weights}
        self.memory.update(state)
        if iteration % STORAGE_EVERY == 0:
            torch.save(state, self.root / f"iter_{iteration:07d}.pt")
            (self.root / TRACKER).write_text(str(iteration))

    def load(self) -> dict[str, Any]:
        if self.prefer_memory and self.memory:  # HIT
            return self.memory  # MEMORY
        return self.load_from_storage()  # DISK

    def load_from_storage(self) -> dict[str, Any]:
        iteration = read_metadata(self.root)
        state: dict[str, Any] = torch.load(
            self.root / f"iter_{iteration:07d}.pt", weights_only=True
        )
        return state


def read_metadata(root: Path) -> int:
    iteration = int((root / TRACKER).read_text())
    newest = torch.tensor([iteration])
    dist.all_reduce(newest, op=dist.ReduceOp.MAX)  # BUG
    if newest.item() != iteration:
        print(f"WARNING: iteration {iteration} on this disk, {newest.item()} on another")
    return int(newest.item())


def train(
    model: nn.Module, checkpointer: FlashCheckpointer, first: int, last: int, batch: int
) -> None:
    seen = torch.tensor([first * batch])
    dist.all_reduce(seen)  # SEEN
    for iteration in range(first, last):
        model(torch.randn(batch, 8)).square().mean().backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.data -= 0.01 * p.grad / dist.get_world_size()  # type: ignore[operator]
            p.grad = None
        checkpointer.save(iteration + 1, model)


def worker(rank: int, attempt: int, root: str) -> None:
    torch.manual_seed(rank)
    model = nn.Linear(8, 2)
    checkpointer = FlashCheckpointer(root, prefer_memory=not TWIN)
    first = 0
    if attempt:
        state = checkpointer.load()
        model.load_state_dict(state["model"])
        first = state["iteration"]
    train(model, checkpointer, first, first + 6, batch=512)


rank = init()
with tempfile.TemporaryDirectory() as root:
    worker(rank, 0, root)
    if rank == REPLACED:
        FlashCheckpointer.memory.clear()  # the new machine's is empty
    worker(rank, 1, root)
dist.destroy_process_group()
