"""The group of tied embeddings is made by its members only; the middle stage is a new_group behind.

ranks: 3
expect: group_mismatch
suspects: 1
status: diverged
cause: /ranks? 1/; BUG; emb_ranks | members_only
fix: every rank | all ranks | use_local_synchronization
never: drop_last; join(); /ranks? (0,2|0, 2|0 and 2) (is|are) (wrong|guilty|to blame)/
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from tests.zoo.common import TWIN, init

VOCAB, HIDDEN = 12, 8


class ParallelState:
    """Grids of ranks as in parallel_state.py, for pipelines only."""

    pp_group: dist.ProcessGroup | None
    emb_group: dist.ProcessGroup | None
    first_group: dist.ProcessGroup | None

    def __init__(self, pipeline_size: int, members_only: bool) -> None:
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.stages = pipeline_size
        self.members_only = members_only
        self.pp_group = self.emb_group = self.first_group = None

    def _group_of(self, ranks: list[int]) -> dist.ProcessGroup | None:
        group = dist.new_group(ranks)
        return group if self.rank in ranks else None

    def initialize(self) -> "ParallelState":
        replicas = self.world // self.stages
        for i in range(replicas):
            ranks = list(range(i, self.world, replicas))
            self.pp_group = self._group_of(ranks) or self.pp_group
            emb_ranks = [ranks[0], ranks[-1]]
            if self.rank in emb_ranks or not self.members_only:
                self.emb_group = self._group_of(emb_ranks) or self.emb_group  # BUG
            self.first_group = self._group_of(ranks[:1]) or self.first_group
        self.loss_group = dist.new_group(list(range(self.world)))
        return self

    first = property(lambda self: self.rank == 0)
    last = property(lambda self: self.rank == self.stages - 1)


class Stage(nn.Module):
    embedding: Any  # None in the middle

    def __init__(self, state: ParallelState) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.embedding = nn.Embedding(VOCAB, HIDDEN) if state.first or state.last else None
        self.body = nn.Linear(HIDDEN, HIDDEN)


def train_step(
    state: ParallelState, stage: Stage, opt: torch.optim.Optimizer, tokens: torch.Tensor
) -> float:
    if state.first:
        x = stage.embedding(tokens)
    else:
        x = torch.empty(len(tokens), HIDDEN)
        dist.recv(x, state.rank - 1, group=state.pp_group)
        x.requires_grad_()
    out = stage.body(x)
    loss = torch.zeros(1)
    if state.last:
        loss = nn.functional.cross_entropy(out @ stage.embedding.weight.T, tokens).reshape(1)
        loss.backward()  # type: ignore[no-untyped-call]
    else:
        dist.send(out.detach(), state.rank + 1, group=state.pp_group)
        grad = torch.empty_like(out)
        dist.recv(grad, state.rank + 1, group=state.pp_group)
        out.backward(grad)
    if not state.first:
        dist.send(x.grad, state.rank - 1, group=state.pp_group)
    if state.emb_group is not None:
        dist.all_reduce(stage.embedding.weight.grad, group=state.emb_group)
    opt.step()
    opt.zero_grad()
    loss = loss.detach()
    dist.broadcast(loss, state.stages - 1, group=state.loss_group)
    return loss.item()


rank = init()
arguments: list[Any] = [{"pipeline": 3, "steps": 5} if rank == 0 else None]
dist.broadcast_object_list(arguments, src=0)
state = ParallelState(arguments[0]["pipeline"], members_only=not TWIN).initialize()
stage = Stage(state)
opt = torch.optim.SGD(stage.parameters(), lr=0.1)
for step in range(arguments[0]["steps"]):
    train_step(state, stage, opt, torch.arange(6) + step)
dist.destroy_process_group()
