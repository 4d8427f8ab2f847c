"""Rank 2 polls the prefetch of one request more than the others: its KV pool had a slot more.

ranks: 4
expect: deadlock
suspects: 2
status: hung
cause: rank 2; BUG; batch_is_full | break | admitted
fix: every rank | all ranks | same
never: drop_last; join(); /ranks? 0,1,3 (left|skipped|is wrong|are wrong)/;
    /rank 0 (left|skipped|is to blame)/
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

# By rank: the ticks at which write-backs are acknowledged before the other ranks see them.
FREED_EARLY: dict[int, set[int]] = {} if TWIN else {2: {5}}


@dataclass
class Req:
    rid: int
    tokens: int
    loaded: int = 0


def available_size(rank: int, tick: int) -> int:
    return 3 + (tick in FREED_EARLY.get(rank, ()))


class HiRadixCache:
    def __init__(self, group: dist.ProcessGroup) -> None:
        self.group = group

    def _all_reduce_attn_groups(self, value: torch.Tensor) -> int:
        dist.all_reduce(value, op=dist.ReduceOp.MIN, group=self.group)
        return int(value)

    def check_prefetch_progress(self, req: Req) -> bool:
        req.loaded += 32
        return self._all_reduce_attn_groups(torch.tensor(req.loaded)) >= req.tokens


@dataclass
class Scheduler:
    rank: int
    cache: HiRadixCache
    weight: torch.Tensor
    waiting: deque[Req] = field(default_factory=deque)
    tick: int = 0

    def recv_requests(self) -> None:
        box: list[Any] = [None]
        if self.rank == 0:
            box = [
                [
                    Req(10 * self.tick + i, 32 + 32 * (i % 2))
                    for i in range(3 if self.tick < 6 else 2)
                ]
            ]
        dist.broadcast_object_list(box, src=0)
        self.waiting.extend(box[0])

    def get_new_batch_prefill(self) -> list[Req]:
        can_run, admitted = [], 0
        for req in list(self.waiting):
            batch_is_full = admitted >= available_size(self.rank, self.tick)
            if batch_is_full:
                break
            admitted += 1
            if not self.cache.check_prefetch_progress(req):  # BUG
                continue
            can_run.append(req)
        for req in can_run:
            self.waiting.remove(req)
        return can_run

    def run_batch(self, batch: list[Req]) -> None:
        hidden = torch.ones(max(1, len(batch)), 8) @ self.weight
        dist.all_reduce(hidden)  # row-parallel projection, over the tensor parallel (device) group

    def event_loop(self, ticks: int) -> None:
        for self.tick in range(ticks):
            self.recv_requests()
            self.run_batch(self.get_new_batch_prefill())


rank = init()
cpu_group = dist.new_group(backend="gloo")
torch.manual_seed(0)
Scheduler(rank, HiRadixCache(cpu_group), torch.randn(8, 8)).event_loop(10)
dist.destroy_process_group()
