"""Setting up experts, each rank makes only its own group: two groups are asked for in one place.

ranks: 4
expect: group_mismatch
suspects: none
status: diverged
cause: BUG; new_group; wanted | for | EXPERTS | form_groups
fix: every rank | all ranks | all processes
never: drop_last; join();
    /ranks? (0,3|0 and 3|1,2|1-2|1 and 2) (is wrong|are wrong|skipped|are to blame)/
"""

import time

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

LAYOUT = {"wide": [0, 3], "narrow": [1, 2]}  # which ranks hold which experts
HIDDEN = {"wide": 96, "narrow": 64}


class ExpertParallel:
    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.kind = next(kind for kind, members in LAYOUT.items() if rank in members)
        self.group: dist.ProcessGroup | None = None
        self.weight: torch.Tensor = None  # type: ignore[assignment]

    def load_weights(self) -> None:
        if self.rank % 2:
            time.sleep(0.8)  # these nodes read from the slower disk
        generator = torch.Generator().manual_seed(HIDDEN[self.kind])
        self.weight = torch.randn(HIDDEN[self.kind], generator=generator)

    def form_groups(self) -> None:
        wanted = list(LAYOUT) if TWIN else [self.kind]
        for kind in wanted:
            group = dist.new_group(LAYOUT[kind])  # BUG
            if kind == self.kind:
                self.group = group

    def step(self, signal: torch.Tensor) -> torch.Tensor:
        grad = torch.tanh(self.weight * signal)
        dist.all_reduce(grad, group=self.group)
        self.weight -= 0.01 * grad / dist.get_world_size(self.group)
        return self.weight.abs().mean()


class Router:
    """Dense; all ranks train it together."""

    def __init__(self) -> None:
        self.weight = torch.zeros(12)

    def step(self, generator: torch.Generator) -> torch.Tensor:
        grad = torch.randn(12, generator=generator)
        dist.all_reduce(grad)
        self.weight -= 0.1 * grad / dist.get_world_size()
        return self.weight.norm()  # type: ignore[no-any-return]


def train(rank: int, warmup_steps: int = 4, steps: int = 12) -> None:
    generator = torch.Generator().manual_seed(rank)
    router, experts = Router(), None
    for step in range(steps):
        if step == warmup_steps:
            experts = ExpertParallel(rank)
            experts.load_weights()
            experts.form_groups()  # EXPERTS
        signal = router.step(generator)
        size = experts.step(signal) if experts else torch.tensor(0.0)
        if step % 4 == 3:
            total = size.reshape(1).clone()
            dist.all_reduce(total)
            if rank == 0:
                print(f"step {step}: router {signal:.3f} experts {total.item():.3f}", flush=True)


train(init())
dist.destroy_process_group()
