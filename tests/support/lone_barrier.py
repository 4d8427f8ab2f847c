"""A run of three ranks in which rank 0 alone comes to a barrier, by some line of a program."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from collectrace.findings import Finding
from collectrace.records import Stack
from tests.support.judging import aligned, errors
from tests.support.synthetic import Run

SCRIPT = """\
def save():
    dist.barrier()
for step in range(9):
    dist.all_reduce(loss)
    if step == 3:
        dist.barrier()
    if step == 3:
        if empty:
            continue
        dist.barrier()
    if step == 3:
        keeper.save()
    if step == 3:
        full and dist.barrier()
    if step == 3:
        method()
    if rank == 0 and step == 3:
        keeper.save()
    if rank == 0:
        dist.barrier()
    if full:
        if step % 3:
            continue
        if late:
            continue
        dist.barrier()
"""
ALWAYS, SAVE = 4, 2
_ALL, _OWN = 1, 2


def lone_barrier(folder: Path, lines: Sequence[int], *, before: bool = False) -> Finding:
    """The first error. ``lines``: of the barrier and its callers; ``before``: in each round."""
    train = folder / "train.py"
    train.write_text(SCRIPT)
    own = [f"{train}:{n} {'save' if n == SAVE else '<module>'}" for n in lines]
    made = {
        _ALL: ("all_reduce", f"{train}:{ALWAYS}", [f"{train}:{ALWAYS} <module>"]),
        _OWN: ("barrier", f"{train}:{lines[0]}", own),
    }
    rounds = [_ALL, _OWN] * 4 + [_ALL] if before else [_ALL] * 4
    run = Run(3)
    for rank in run:
        for number, (_, _, frames) in made.items():
            rank.record(Stack(stack=number, frames=frames))
        for number in [*rounds, _ALL if rank.rank else _OWN]:
            op, site, _ = made[number]
            call = rank.call(op, site=site, stack=number)
        rank.beat(60, rank.inside(call))
    return errors(aligned(run, folder / "logs"))[0]
