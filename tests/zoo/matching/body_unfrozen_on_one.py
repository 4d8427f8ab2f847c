"""The body of a model is trained once the loss is low enough, which rank 2 finds by its own shard.

ranks: 3
expect: shape_mismatch
suspects: 2
status: diverged
cause: rank 2; BUG; FILTER; elements
fix: requires_grad
never: pad; drop_last; environment
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = torch.nn.Linear(4, 6), torch.nn.Linear(6, 3)
        self.body.requires_grad_(requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.body(x)))  # type: ignore[no-any-return]


class Trainer:
    def __init__(self, rank: int) -> None:
        torch.manual_seed(0)
        self.model = Model()
        self.hard = 1.0 if rank == 2 else 4.0

    def average_gradients(self) -> None:
        for parameter in self.model.parameters():
            if parameter.requires_grad:  # FILTER
                dist.all_reduce(parameter.grad)  # BUG

    def validate(self, epoch: int) -> float:
        loss = torch.tensor([self.hard / (1 + epoch)])
        if TWIN:
            dist.all_reduce(loss)
            loss /= dist.get_world_size()
        return float(loss)

    def fit(self) -> None:
        for epoch in range(6):
            self.model(torch.ones(2, 4)).sum().backward()
            self.average_gradients()
            if self.validate(epoch) < 0.5:
                self.model.body.requires_grad_(requires_grad=True)


rank = init()
Trainer(rank).fit()
dist.destroy_process_group()
