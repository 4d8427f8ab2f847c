"""An idle data-parallel engine skips its step and meets the others one ahead, at the finish vote.

ranks: 4
expect: shape_mismatch role_mismatch
suspects: 2
status: diverged
cause: /ranks? 2/; BUG | COORD; num_tokens | DUMMY_RUN_BACKENDS | EARLY
fix: every rank | all ranks | dummy | /even (if|when|without)/ | EARLY
never: drop_last; join(); /ranks? (0,1,3|0, 1, 3|0, 1 and 3) (left|skipped)/
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

HIDDEN, CAPACITY, SYNC_EVERY = 6, 2, 8
DUMMY_RUN_BACKENDS = {"external_launcher"} | ({"mp"} if TWIN else set())


class MoELayer:
    def __init__(self, seed: int, world: int) -> None:
        gen = torch.Generator().manual_seed(seed)
        self.expert = torch.randn(HIDDEN, HIDDEN, generator=gen) / HIDDEN
        self.world = world

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        buf = torch.zeros(self.world * CAPACITY, HIDDEN)
        kept = min(len(x), len(buf))
        buf[:kept] = x[:kept]
        dispatched = torch.empty_like(buf)
        dist.all_to_all_single(dispatched, buf)
        combined = torch.empty_like(buf)
        dist.all_to_all_single(combined, torch.tanh(dispatched @ self.expert))
        return torch.cat([combined[:kept], x[kept:]])


class ModelRunner:
    def __init__(self, rank: int, world: int, backend: str = "mp") -> None:
        self.rank, self.world, self.backend = rank, world, backend
        self.layers = [MoELayer(17 + i, world) for i in range(2)]

    def coordinate_batch_across_dp(self, num_tokens: int) -> int:
        counts = torch.zeros(self.world, dtype=torch.int32)
        counts[self.rank] = num_tokens
        dist.all_reduce(counts)  # BUG
        return int(counts.max())

    def execute_model(self, scheduled: dict[int, int]) -> torch.Tensor | None:
        num_tokens = sum(scheduled.values())
        if num_tokens == 0:
            if self.backend not in DUMMY_RUN_BACKENDS:
                return None  # EARLY
            num_tokens = 1
        padded = self.coordinate_batch_across_dp(num_tokens)  # COORD
        x = torch.ones(padded, HIDDEN)
        for layer in self.layers:
            x = layer(x)
        return x[:num_tokens].argmax(-1)


class Scheduler:
    """Each engine has its own queue: (arrival step, number of tokens to decode)."""

    def __init__(self, requests: list[tuple[int, int]]) -> None:
        self.waiting, self.now = list(requests), 0
        self.running: dict[int, int] = {}

    def schedule(self) -> dict[int, int]:
        while self.waiting and self.waiting[0][0] <= self.now:
            arrival, length = self.waiting.pop(0)
            self.running[arrival] = length
        plan = dict.fromkeys(self.running, 1)
        for request in plan:
            self.running[request] -= 1
        self.running = {k: left for k, left in self.running.items() if left}
        self.now += 1
        return plan

    def has_unfinished(self) -> bool:
        return bool(self.waiting or self.running)


class EngineCore:
    def __init__(self, rank: int, world: int, requests: list[tuple[int, int]]) -> None:
        self.scheduler, self.runner = Scheduler(requests), ModelRunner(rank, world)

    def has_global_unfinished(self) -> bool:
        flag = torch.tensor([int(self.scheduler.has_unfinished())], dtype=torch.int32)
        dist.all_reduce(flag, op=dist.ReduceOp.MAX)
        return bool(flag.item())

    def run_busy_loop(self) -> int:
        step = 0
        while True:
            self.runner.execute_model(self.scheduler.schedule())
            step += 1
            if step % SYNC_EVERY == 0 and not self.has_global_unfinished():
                return step


QUEUES = {0: [(0, 24)], 1: [(0, 9), (7, 17)], 2: [(0, 11), (12, 12)], 3: [(0, 5), (3, 21)]}

rank = init()
EngineCore(rank, dist.get_world_size(), QUEUES[rank]).run_busy_loop()
dist.destroy_process_group()
