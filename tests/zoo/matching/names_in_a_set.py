"""Metrics are reduced in the order of a set of their names: a hash seed of its own on every rank.

All ranks make the same calls in permuted order. No backend notices: the numbers are wrong.

ranks: 3
expect: reduce_op_mismatch
suspects: none
status: diverged
cause: order* | permut*; set | unordered | hash* | PYTHONHASHSEED; BUG
fix: sort* | same order
never: logs do not show; same op on every rank
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


class Name(str):
    """Hashes as strings do under another PYTHONHASHSEED in each process."""

    def __hash__(self) -> int:
        return (ord(self[0]) * (1, 3, 5)[rank]) % 8


rank = init()
metrics = {
    "loss": dist.ReduceOp.SUM,
    "norm": dist.ReduceOp.MAX,
    "kept": dist.ReduceOp.MIN,
    "mean": dist.ReduceOp.PRODUCT,
}
names = {Name(name) for name in metrics}
for name in sorted(names) if TWIN else names:
    dist.all_reduce(torch.ones(1), op=metrics[str(name)])  # BUG
