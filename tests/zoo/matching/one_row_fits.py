"""Rank 1 turns to its evaluation where the others go on training; one row fits, the next does not.

ranks: 3
expect: op_mismatch reduce_op_mismatch
suspects: 1
status: diverged
cause: rank 1; evaluate | EVALUATES
fix: every rank | all ranks
never: agree again; one extra
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def train() -> None:
    dist.all_reduce(torch.ones(1))
    dist.all_reduce(torch.ones(1), op=dist.ReduceOp.MAX)
    dist.broadcast(torch.ones(1), src=0)


def evaluate() -> None:
    dist.all_reduce(torch.ones(1), op=dist.ReduceOp.MIN)  # BUG
    dist.all_reduce(torch.ones(1))
    dist.barrier()


rank = init()
for step in range(4):
    if (rank, step) == (1, 2) and not TWIN:
        evaluate()  # EVALUATES
    train()
