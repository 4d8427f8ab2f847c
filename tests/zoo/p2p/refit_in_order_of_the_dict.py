"""Trainers send the weights to the samplers in the order of their dicts; one dict is in another.

Trainer 1 has loaded one entry anew, which so came to stand last.

ranks: 4
expect: p2p_mismatch
suspects: 1
status: diverged
cause: BUG; rank 1; another order
fix: sorted
never: drop_last; never sent; wrong peer; dtype mismatch; rank 0 is to blame
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

TRAINERS = (0, 1)
SAMPLERS = (2, 3)
SHAPES = {
    "embed.weight": (8, 12),
    "attn.weight": (8, 8),
    "mlp.weight": (8, 16),
    "norm.weight": (8, 2),
}
ROUNDS = 3


class Trainer:
    """Holds the upper or the lower half of the rows of every weight."""

    def __init__(self, rank: int) -> None:
        torch.manual_seed(rank)
        self.weights = {name: torch.randn(rows // 2, cols) for name, (rows, cols) in SHAPES.items()}

    def resume(self, rank: int) -> None:
        """The saved embedding of this half was damaged: it is taken out, and made anew."""
        for name in ["embed.weight"] if rank == 1 else []:
            damaged = self.weights.pop(name)
            self.weights[name] = torch.zeros_like(damaged)

    def names(self) -> list[str]:
        return list(SHAPES) if TWIN else list(self.weights)

    def publish(self) -> None:
        """To each sampler its half of the columns."""
        works = []
        for name in self.names():
            for sampler, part in zip(
                SAMPLERS, self.weights[name].chunk(len(SAMPLERS), dim=1), strict=False
            ):
                works.append(dist.isend(part.contiguous(), dst=sampler))  # BUG
        for work in works:
            assert work is not None
            work.wait()

    def step(self) -> None:
        for weight in self.weights.values():
            weight -= 0.1 * weight


class Sampler:
    """Holds the left or the right half of the columns of every weight."""

    def __init__(self) -> None:
        self.weights = {name: torch.empty(rows, cols // 2) for name, (rows, cols) in SHAPES.items()}

    def refit(self) -> None:
        works = []
        for weight in self.weights.values():
            for trainer, part in zip(TRAINERS, weight.chunk(len(TRAINERS), dim=0), strict=False):
                works.append(dist.irecv(part, src=trainer))  # TAKES
        for work in works:
            assert work is not None
            work.wait()


def main() -> None:
    rank = init()
    if rank in TRAINERS:
        trainer = Trainer(rank)
        trainer.resume(rank)
    else:
        sampler = Sampler()
    for _ in range(ROUNDS):
        if rank in TRAINERS:
            trainer.publish()
            trainer.step()
        else:
            sampler.refit()
        dist.barrier()
    print("refitted", ROUNDS, "times")
    dist.destroy_process_group()


main()
