"""Which calls are compared to find what decided."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.records import Stack
from tests.unit.align.deciding.program import Program

TRAIN = """\
import torch.distributed as dist

def validate(loss):
    dist.all_reduce(loss)  # VALIDATES

def train(rank, step, loss):
    dist.broadcast(loss, 0)  # FIRST
    if step % 5 == 4:  # EVERY
        if rank == 0:  # ALONE
            validate(loss)  # CALLS
        dist.barrier()  # ALL

for step in range(5):
    train(dist.get_rank(), step, loss)  # MAIN
"""


@pytest.mark.parametrize("is_lost", [False, True])
def test_nothing_decides_what_may_have_been_called_from_anywhere(
    is_lost: bool, tmp_path: Path
) -> None:
    program = Program(tmp_path, TRAIN)
    main = ("MAIN", "<module>")
    for _ in range(5):
        for rank in 0, 1:
            program.call(rank, "broadcast", ("FIRST", "train"), main, root=0)
    program.call(0, "all_reduce", ("VALIDATES", "validate"), ("CALLS", "train"), main)
    program.call(1, "barrier", ("ALL", "train"), main)
    if is_lost:
        items = program.run.rank(0).items
        items.remove(next(one for one in reversed(items) if isinstance(one, Stack)))
    texts = [one.text for one in program.decisions()]
    assert texts == ([] if is_lost else ["if rank == 0:  # ALONE"])
