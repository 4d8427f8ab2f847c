"""On rank 1 the label service fails; its handler takes the labels that rank 0 keeps, alone.

The record has the exception, for a call was made while it was handled.

ranks: 2
expect: op_mismatch
suspects: 1
status: diverged
cause: rank 1; BUG; HANDLER | KEPT; ApiError
fix: every rank | all ranks | flag; HANDLER | KEPT | ApiError | flag
never: ambiguous; do not show which; disagree; depends on the rank; join(); drop_last
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


class ApiError(Exception):
    """What the client of the service raises for any answer but 200."""


class LabelService:
    def __init__(self, rank: int) -> None:
        self.quota = 4 if rank == 1 and not TWIN else 100
        self.asked = 0

    def labels(self, batch: torch.Tensor) -> torch.Tensor:
        self.asked += 1
        if self.asked > self.quota:
            raise ApiError(f"429 too many requests ({self.asked} of {self.quota})")
        return batch.sum(1)


class Labels:
    """Labels from the service, or else those of rank 0."""

    def __init__(self, service: LabelService) -> None:
        self.service, self.kept = service, torch.zeros(2)

    def of(self, batch: torch.Tensor) -> torch.Tensor:
        try:
            self.kept = self.service.labels(batch)
        except ApiError as error:  # HANDLER
            print("kept labels:", error, flush=True)
            dist.broadcast(self.kept, src=0)  # KEPT
        return self.kept


def train(labels: Labels) -> None:
    weight = torch.ones(3)
    for step in range(8):
        batch = torch.full((2, 3), float(step))
        error = batch @ weight - labels.of(batch)
        gradient = batch.T @ error
        dist.all_reduce(gradient)  # BUG
        weight -= 0.001 * gradient


train(Labels(LabelService(init())))
dist.destroy_process_group()
