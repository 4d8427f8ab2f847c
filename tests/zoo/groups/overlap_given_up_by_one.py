"""Rank 2 settles the last batch before it runs the next; the others run first.

ranks: 4
expect: deadlock
suspects: 2
status: hung
cause: rank 2; BUG | DISPATCHED; overlap
fix: same order | every rank | all ranks | agree*
never: drop_last; join(); rank 0 left out
"""

from collections import deque

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

PREFILL, DECODE = 1, 0
REQUESTS = {0: "pddddddddd", 1: "pddddddddd", 2: "pdddppdddd", 3: "pddddddddd"}
TOGETHER = TWIN  # look at the batches of all ranks


class Scheduler:
    def __init__(self, rank: int, world: int) -> None:
        self.rank, self.world = rank, world
        self.cpu_group = dist.new_group()  # what the schedulers tell each other
        self.device_group = dist.new_group()  # what the layers of the model exchange
        self.waiting = deque(PREFILL if kind == "p" else DECODE for kind in REQUESTS[rank])
        self.results: deque[torch.Tensor] = deque()
        self.last_mode = DECODE

    def sync_batch(self, mode: int) -> int:
        """Everybody learns what everybody is about to run."""
        own = torch.tensor([mode])
        modes = [torch.zeros_like(own) for _ in range(self.world)]
        dist.all_gather(modes, own, group=self.cpu_group)
        return max(int(other) for other in modes)

    def run(self, mode: int) -> None:
        tokens = torch.full((self.world, 16), float(1 + mode))
        for _ in range(2):
            dispatched = torch.empty_like(tokens)
            dist.all_to_all_single(dispatched, tokens, group=self.device_group)  # DISPATCHED
            tokens = dispatched / 2
        self.results.append(tokens.sum())

    def settle(self) -> None:
        finished = self.results.popleft().reshape(1)
        dist.all_reduce(finished, group=self.cpu_group)

    def loop(self) -> None:
        while self.waiting:
            mode = self.waiting.popleft()
            somebody = self.sync_batch(mode)
            seen = somebody if TOGETHER else mode
            overlap = not (seen == PREFILL and self.last_mode == PREFILL)
            if not overlap and self.results:
                self.settle()  # BUG
            self.run(mode)
            if overlap and len(self.results) > 1:
                self.settle()
            self.last_mode = seen
        while self.results:
            self.settle()


def main() -> None:
    rank = init()
    Scheduler(rank, dist.get_world_size()).loop()
    dist.destroy_process_group()


main()
