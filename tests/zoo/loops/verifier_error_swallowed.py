"""A verifier chokes on rank 1: the step is left, and the next one begins while rank 0 goes on.

Behind its call out of turn rank 1 makes that of rank 0, of the next step: it has no call more.

ranks: 2
expect: dtype_mismatch
suspects: none
status: diverged
cause: rank 1; BUG; EXCEPT
fix: EXCEPT
never: one extra; did not; ran on some ranks only
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def gather(tensor: torch.Tensor) -> torch.Tensor:
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, tensor)  # BUG
    return torch.cat(parts)


def verify(text: str) -> float:
    if text.count("{") != text.count("}"):
        raise ValueError("unbalanced braces")
    return float(len(text))


rank = init()
for step in range(9):
    texts = ["{1}", "{2" if (rank, step) == (1, 5) and not TWIN else "{2}"]
    gather(torch.tensor([len(text) for text in texts]))  # BUG
    try:
        rewards = gather(torch.tensor([verify(text) for text in texts]))  # BUG
    except ValueError:  # EXCEPT
        continue
    for _ in range(2):
        dist.all_reduce(rewards.mean())
