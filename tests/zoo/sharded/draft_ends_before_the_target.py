"""Speculative decoding: a small sharded model drafts, a large one of the same modules verifies.

In the third prompt rank 2 is content with fewer drafted tokens, and verifies while the others still
draft. Both models run through the same lines: the shards that meet differ in size, not the models.

ranks: 3
expect: shape_mismatch
suspects: 2
status: diverged
cause: rank 2; loop | while; ended earlier | left the loop; BUG
fix: same length on every rank; all ranks
never: same model; sizes of layers; pad; ragged; drop_last
"""

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import Linear, Module, ModuleList

from tests.zoo.common import TWIN, init

DRAFTED = {0: (2, 3, 4), 1: (2, 3, 4), 2: (2, 3, 4 if TWIN else 2)}


class Tower(Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = ModuleList([Linear(3, width), Linear(width, 3)])
        for layer in self.layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(self, mesh=mesh)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            value = layer(value)
        return value


class Speculation:
    def __init__(self) -> None:
        self.draft, self.target = Tower(4), Tower(32)

    def propose(self, tokens: torch.Tensor, wanted: int) -> torch.Tensor:
        while len(tokens) <= wanted:
            tokens = torch.cat([tokens, self.draft(tokens[-1:])])  # BUG
        return tokens

    def answer(self, prompt: int) -> None:
        tokens = self.propose(torch.ones(1, 3), DRAFTED[rank][prompt])
        self.target(tokens)  # BUG


rank = init()
mesh = init_device_mesh("cpu", (3,))
speculation = Speculation()
with torch.no_grad():
    for prompt in range(3):
        speculation.answer(prompt)
