"""Resumed on three ranks from two: rank 2 has no RNG file, and draws another task.

ranks: 3
expect: op_mismatch
suspects: 2
status: diverged
cause: rank 2; BUG | GATHER; contrastive
fix: every rank | all ranks | the same on each | same seed | same decision
never: drop_last; join(); find_unused_parameters; /rank 2 (raised|ran out|finished)/
"""

import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

TASKS = ["caption", "contrastive"]
FALLBACK = 0 if TWIN else None  # whose file is taken by a rank that has none of its own
SAVED_AT, STEPS = 6, 18


def rng_file(folder: str, rank: int) -> Path:
    return Path(folder) / f"rng_state_{rank}.pth"


def set_seed(seed: int) -> None:
    random.seed(seed)
    torch.manual_seed(seed)


def earlier_run(folder: str, ranks: int) -> None:
    """What the job of two ranks left behind when it was scaled up."""
    set_seed(42)
    for _ in range(SAVED_AT):
        random.choice(TASKS)
    for rank in range(ranks):
        torch.save(
            {"python": random.getstate(), "torch": torch.get_rng_state()}, rng_file(folder, rank)
        )


def load_rng_state(folder: str, rank: int) -> None:
    path = rng_file(folder, rank)
    if not path.is_file() and FALLBACK is not None:
        path = rng_file(folder, FALLBACK)
    if not path.is_file():
        print(f"no RNG file for process {rank}; reproducibility is not guaranteed")
        return
    state = torch.load(path, weights_only=False)
    random.setstate(state["python"])
    torch.set_rng_state(state["torch"])


def contrastive_loss(features: torch.Tensor) -> torch.Tensor:
    others = [torch.zeros_like(features) for _ in range(dist.get_world_size())]
    dist.all_gather(others, features.detach())  # GATHER
    return features @ torch.cat(others).t()


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, first: int) -> None:
    data = torch.Generator().manual_seed(100 + dist.get_rank())
    for _ in range(first, STEPS):
        features = model(torch.randn(4, 6, generator=data))
        task = random.choice(TASKS)
        if task == "contrastive":
            loss = contrastive_loss(features).square().mean()  # BUG
        else:
            loss = features.square().mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()


rank = init()
box: list[Any] = [tempfile.mkdtemp(prefix="resume-") if rank == 0 else None]
dist.broadcast_object_list(box, src=0)
folder: str = box[0]
if rank == 0:
    earlier_run(folder, ranks=2)
dist.barrier()
set_seed(42)
model = torch.nn.Linear(6, 3)
load_rng_state(folder, rank)
dist.barrier()
if rank == 0:
    shutil.rmtree(folder)
train(model, torch.optim.SGD(model.parameters(), lr=0.01), SAVED_AT)
dist.destroy_process_group()
