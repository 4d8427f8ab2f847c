"""After the evaluation the last stage alone runs the schedule again, to collect outputs.

ranks: 4
expect: deadlock
suspects: 3
status: hung
cause: BUG; rank 3; no other rank came
fix: only together with its send
never: rank 0 skipped; died; network; microbatch too few
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

MICROBATCHES = 3
HIDDEN = 12


class Pipeline:
    """A stage, and the schedule that all the stages run together."""

    def __init__(self, rank: int) -> None:
        self.rank, self.last = rank, dist.get_world_size() - 1
        self.weight = torch.full((HIDDEN,), 0.9)

    def recv_forward(self) -> torch.Tensor:
        x = torch.ones(HIDDEN)
        if self.rank > 0:
            dist.recv(x, src=self.rank - 1)  # BUG
        return x

    def run(self, forward_only: bool) -> list[torch.Tensor]:
        outputs = []
        for _ in range(MICROBATCHES):
            y = self.recv_forward() * self.weight
            if self.rank < self.last:
                dist.send(y, dst=self.rank + 1)
            outputs.append(y)
        if not forward_only:
            for y in outputs:
                grad = torch.ones_like(y)
                if self.rank < self.last:
                    dist.recv(grad, src=self.rank + 1)
                if self.rank > 0:
                    dist.send(grad * self.weight, dst=self.rank - 1)
        return outputs


class Evaluator:
    """Loss, and outputs for the people who look at samples."""

    def __init__(self, pipeline: Pipeline, keep_samples: bool) -> None:
        self.pipeline = pipeline
        self.keep_samples = keep_samples

    def evaluate(self) -> float:
        pipeline = self.pipeline
        outputs = pipeline.run(forward_only=True)
        loss = torch.stack(outputs).mean()
        dist.broadcast(loss, src=pipeline.last)
        if self.keep_samples and (TWIN or pipeline.rank == pipeline.last):
            samples = pipeline.run(forward_only=True)  # BUG
            if pipeline.rank == pipeline.last:
                print("samples", [round(float(s[0]), 3) for s in samples])
        dist.barrier()
        return float(loss)


def main() -> None:
    pipeline = Pipeline(init())
    evaluator = Evaluator(pipeline, keep_samples=True)
    for step in range(1, 7):
        pipeline.run(forward_only=False)
        if step % 3 == 0:
            evaluator.evaluate()
    dist.destroy_process_group()


main()
