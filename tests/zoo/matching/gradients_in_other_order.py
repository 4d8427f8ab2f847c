"""Rank 1 has filled its dict of gradients in another order; all are reduced in one go.

ranks: 3
expect: shape_mismatch
suspects: 1
status: diverged
cause: rank 1; order* | permut*; BUG
fix: same order | sort*
never: ragged; drop_last
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
sizes = {"embedding": 6, "layer": 4, "head": 2}
order = list(reversed(sizes)) if rank == 1 and not TWIN else list(sizes)
for _ in range(3):
    gradients = {name: torch.ones(sizes[name]) for name in order}
    works = [dist.all_reduce(gradient, async_op=True) for gradient in gradients.values()]  # BUG
    for work in works:
        assert work is not None
        work.wait()
