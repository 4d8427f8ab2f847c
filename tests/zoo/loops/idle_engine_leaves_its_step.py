"""An engine without a token returns early, and runs one step ahead until the statistics.

ranks: 3
expect: op_mismatch
suspects: 1
status: diverged
cause: rank 1; BUG; IDLE | LOCAL | EARLY | num_tokens == 0
fix: every rank | all ranks | dummy | same number | unconditional* | before | above | always |
    even if | even when | even with | even for | take part | takes part
never: /ranks? (0,2|0 and 2|0, 2|0|2) (is|are) (wrong|to blame|guilty|at fault)/;
    /suspects?:? ranks? (0,2|0 and 2|0, 2|0|2)/
"""

from dataclasses import dataclass, field

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

EMPTY = None
LAUNCHER = "external" if TWIN else "mp"
FITTING = {0: [7, 3, 5, 2, 4, 6, 1, 3], 1: [4, 6, 2, 5, 0, 3, 7, 2], 2: [1, 5, 3, 6, 2, 2, 4, 4]}


@dataclass
class Scheduler:
    """The requests of one engine: how many tokens each step may run, as its cache allows."""

    fitting: list[int]
    step: int = field(default=0, init=False)

    def schedule(self) -> int:
        num_tokens = self.fitting[self.step % len(self.fitting)]
        self.step += 1
        return num_tokens


class ModelRunner:
    def __init__(self, rank: int, dp_size: int) -> None:
        self.rank, self.dp_size = rank, dp_size
        self.expert = torch.nn.Linear(4, 4)

    def coordinate_batch_across_dp(self, num_tokens: int) -> int:
        """All engines pad their batch to the largest one."""
        counts = torch.zeros(self.dp_size, dtype=torch.int32)
        counts[self.rank] = num_tokens
        dist.all_reduce(counts)  # BUG
        return int(counts.max())

    def run_experts(self, hidden: torch.Tensor) -> torch.Tensor:
        parts = [torch.empty_like(hidden) for _ in range(self.dp_size)]
        dist.all_gather(parts, hidden)
        return self.expert(torch.cat(parts))[: len(hidden)]  # type: ignore[no-any-return]

    @torch.no_grad()
    def execute_model(self, num_tokens: int) -> torch.Tensor | None:
        if num_tokens == 0:  # IDLE
            if LAUNCHER != "external":  # LOCAL
                return EMPTY  # EARLY
            num_tokens = 1  # a dummy run
        padded = self.coordinate_batch_across_dp(num_tokens)
        hidden = torch.zeros(padded, 4)
        hidden[:num_tokens] = float(self.rank)
        return self.run_experts(hidden)


def log_stats(scheduler: Scheduler, finished: int) -> None:
    stats = torch.tensor([float(scheduler.step), float(finished)])
    dist.reduce(stats, dst=0)


def run_busy_loop(scheduler: Scheduler, runner: ModelRunner, steps: int) -> None:
    finished = 0
    for step in range(steps):
        output = runner.execute_model(scheduler.schedule())
        if output is not EMPTY:
            finished += len(output)
        if (step + 1) % 8 == 0:
            log_stats(scheduler, finished)


rank = init()
run_busy_loop(Scheduler(FITTING[rank]), ModelRunner(rank, dist.get_world_size()), steps=16)
dist.destroy_process_group()
