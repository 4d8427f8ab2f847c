"""Rank 1's second batch has no targets: its loss is a constant, so backward() reduces nothing.

From then on its gradients meet those of the others' iteration before. Nothing fails until the mean.

ranks: 3
expect: shape_mismatch op_mismatch role_mismatch
suspects: 1
status: diverged
cause: rank 1; iteration 2; did not depend on the model; BUG
fix: depend on the model; 0 *
never: fewer iterations; more iterations; find_unused_parameters; the same items
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init


def loss_of(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    if not len(targets) and not TWIN:
        return torch.tensor(0.0, requires_grad=True)
    return scores[: len(targets)].sum() + 0 * scores.sum()


rank = init()
model = DistributedDataParallel(torch.nn.Linear(4, 1))
batches = [torch.ones(4, 4) for _ in range(6)]
total = torch.zeros(1)
for n, batch in enumerate(batches):
    found = torch.ones(0 if (rank, n) == (1, 1) else 2)
    loss = loss_of(model(batch), found)
    torch.autograd.backward(loss)  # BUG
    total += loss.detach()
dist.all_reduce(total)
dist.destroy_process_group()
