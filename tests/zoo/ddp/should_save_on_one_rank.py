"""A callback sets control.should_save on rank 2 alone, by its own score; saving gathers from all.

ranks: 3
expect: op_mismatch role_mismatch shape_mismatch
suspects: 2
status: diverged
cause: rank 2; should_save; SAVES | SETS; BUG
fix: should_save | SAVES | SETS; decide together | all_reduce | every rank
never: drop_last; join(); depends on the rank; same number of iterations; find_unused_parameters
"""

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init


@dataclass
class Control:
    should_save: bool = False
    should_stop: bool = False


class SaveBest:
    def __init__(self) -> None:
        self.best = 0.5

    def on_step_end(self, score: torch.Tensor, control: Control) -> None:
        if TWIN:
            dist.all_reduce(score, op=dist.ReduceOp.MAX)
        if score > self.best:
            self.best = float(score)
            control.should_save = True  # SETS


class Trainer:
    def __init__(self, model: nn.Module, scores: list[float]) -> None:
        self.model, self.scores = model, scores
        self.control, self.callback = Control(), SaveBest()

    def save_checkpoint(self) -> None:
        states = [torch.zeros(2) for _ in range(dist.get_world_size())]
        dist.all_gather(states, torch.get_rng_state()[:2].float())  # BUG
        print("saved", len(states), flush=True)

    def maybe_save(self) -> None:
        if self.control.should_save:  # SAVES
            self.save_checkpoint()
            self.control.should_save = False

    def train(self) -> None:
        for step in range(len(self.scores)):
            self.model(torch.ones(2, 4)).sum().backward()
            self.callback.on_step_end(torch.tensor(self.scores[step]), self.control)
            self.maybe_save()


rank = init()
scores = [0.1, 0.2, 0.3, 0.4, 0.4, 0.45]
if rank == 2:
    scores[3] = 0.6
Trainer(DistributedDataParallel(nn.Linear(4, 1)), scores).train()
dist.barrier()
dist.destroy_process_group()
