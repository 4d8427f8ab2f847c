"""Parameters are gathered in each forward; rank 1 ends its text earlier, without synced_gpus.

ranks: 3
expect: op_mismatch missing_call shape_mismatch
suspects: 1
status: diverged hung
cause: rank 1; ENDS; generate | forward; BUG
fix: ENDS | synced_gpus; synced_gpus | decide together | all_reduce | same number;
    every rank | all
    ranks | together
never: drop_last; DistributedSampler; join(); depends on the rank; find_unused_parameters
"""

import torch
import torch.distributed as dist
from torch import nn

from tests.zoo.common import TWIN, init

END = 7


class ShardedLinear(nn.Module):
    """A layer of which each rank keeps some rows."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.ones(width // dist.get_world_size(), width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        whole = torch.empty(self.rows.shape[1], self.rows.shape[1])
        dist.all_gather_into_tensor(whole, self.rows.detach())  # BUG
        return x @ whole


class Generator:
    def __init__(self, model: nn.Module, longest: int) -> None:
        self.model, self.longest = model, longest

    @torch.no_grad()
    def generate(self, prompt: list[int], end_at: int, *, synced_gpus: bool) -> list[int]:
        tokens = list(prompt)
        finished = False
        while len(tokens) < self.longest:
            if synced_gpus:
                running = torch.tensor(float(not finished))
                dist.all_reduce(running)
                if not running:
                    break
            self.model(torch.full((1, 6), float(len(tokens))))
            if not finished:
                tokens.append(END if len(tokens) + 1 == end_at else 1)
                finished = tokens[-1] == END
            if finished and not synced_gpus:  # ENDS
                break
        return tokens


rank = init()
generator = Generator(nn.Sequential(ShardedLinear(6), ShardedLinear(6)), longest=16)
for step in range(3):
    end_at = 5 if (rank, step) == (1, 1) else 9
    text = generator.generate([1, 2], end_at, synced_gpus=TWIN)
    dist.all_reduce(torch.tensor([float(len(text)), 1.0]))
dist.destroy_process_group()
