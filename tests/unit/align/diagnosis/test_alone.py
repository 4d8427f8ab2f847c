"""Who alone was under a condition: said where nobody can have come through it without the call."""

from __future__ import annotations

from pathlib import Path

import pytest

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
"""


@pytest.mark.parametrize(
    ("lines", "is_known"),
    [
        pytest.param((6,), True, id="right above"),
        pytest.param((10,), False, id="another way out between"),
        pytest.param((2, 12), False, id="a method, which may be another"),
        pytest.param((14,), False, id="the line decides as well"),
        pytest.param((16,), False, id="by another name"),
        pytest.param((2, 18), True, id="for one rank"),
    ],
)
def test_who_alone_was_under_a_condition(
    lines: tuple[int, ...], *, is_known: bool, tmp_path: Path
) -> None:
    train = tmp_path / "train.py"
    train.write_text(SCRIPT)
    run = Run(3)
    names = {2: "save"}
    own = [f"{train}:{n} {names.get(n, '<module>')}" for n in lines]
    for rank in run:
        rank.record(Stack(stack=1, frames=[f"{train}:4 <module>"]))
        rank.record(Stack(stack=2, frames=own))
        for _ in range(4):
            call = rank.call("all_reduce", site=f"{train}:4", stack=1)
        if rank.rank == 0:
            call = rank.call("barrier", site=own[0].partition(" ")[0], stack=2)
        else:
            call = rank.call("all_reduce", site=f"{train}:4", stack=1)
        rank.beat(60, rank.inside(call))
    found = errors(aligned(run, tmp_path / "logs"))[0]
    assert found.suspects == (0,)
    assert ("Only rank 0 was under `if " in found.cause) is is_known
    assert ("The barrier of rank 0 stands under" in found.cause) is not is_known
    assert ("nothing on the way to it" in found.fix) is not is_known
