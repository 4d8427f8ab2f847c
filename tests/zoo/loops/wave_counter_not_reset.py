"""Rank 2 begins a wave with a step already counted and votes on its end one step before the others.

ranks: 4
expect: op_mismatch
suspects: 2
status: diverged
cause: rank 2; BUG; step_counter
fix: every rank | all ranks
never: drop_last; join(); /ranks? (0|1|3) alone/
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

VOTE_EVERY = 4
RESETS = ("wave ends", "wave begins") if TWIN else ("wave ends",)


class Request:
    output: list[int]

    def __init__(self, prompt: str, max_tokens: int) -> None:
        self.prompt, self.max_tokens, self.output = prompt, max_tokens, []

    def finished(self) -> bool:
        return len(self.output) >= self.max_tokens


class EngineCore:
    """One data-parallel engine; its experts are spread over all, so that all step together."""

    waiting: list[Request]

    def __init__(self, rank: int, world: int) -> None:
        self.rank, self.world = rank, world
        self.waiting, self.step_counter, self.wave = [], 0, 0
        self.experts = torch.randn(4, generator=torch.Generator().manual_seed(rank))

    def notify(self, event: str) -> None:
        if event in RESETS:
            self.step_counter = 0

    def add(self, request: Request) -> None:
        self.waiting.append(request)

    def schedule(self) -> list[Request]:
        """What is to run in this step; requests that ask for nothing are answered at once."""
        self.step_counter += 1
        self.waiting = [request for request in self.waiting if not request.finished()]
        return self.waiting[:8]

    def execute(self, batch: list[Request]) -> None:
        hidden = self.experts * max(1, len(batch))  # an idle engine runs a dummy batch
        everyone = [torch.zeros(4) for _ in range(self.world)]
        dist.all_gather(everyone, hidden)
        for request in batch:
            request.output.append(int(sum(everyone).sum() * 100) % 50)  # type: ignore[union-attr]

    def has_global_unfinished(self) -> bool:
        if self.step_counter % VOTE_EVERY != 0:
            return True  # saves a reduction; the answer of the last vote still holds
        unfinished = torch.tensor([float(any(not request.finished() for request in self.waiting))])
        dist.all_reduce(unfinished, op=dist.ReduceOp.MAX)  # BUG
        return bool(unfinished.item())

    def run_wave(self) -> None:
        self.wave += 1
        self.notify("wave begins")
        running = True
        while running:
            self.execute(self.schedule())
            running = self.has_global_unfinished()
        self.notify("wave ends")


def main() -> None:
    rank = init()
    engine = EngineCore(rank, dist.get_world_size())
    for wave in range(4):
        if wave == 2 and rank == 2:  # a probe of the load balancer, between two waves
            engine.add(Request("ping", 0))
            engine.schedule()
        for number in range(1 + (rank + wave) % 3):
            engine.add(Request(f"prompt {number}", 3 + number))
        dist.barrier()  # the coordinator starts the wave
        engine.run_wave()
    dist.destroy_process_group()


main()
