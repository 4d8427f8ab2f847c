"""What else stands on the way to a call: said where what decided is not known, and of no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.findings import Finding
from collectrace.records import Stack
from tests.support.judging import aligned, errors
from tests.support.synthetic import Run

SCRIPT = """\
for step in range(9):
    dist.all_reduce(loss)
    if step == 3:
        dist.barrier()
    if step == 3:
        if empty:
            continue
        dist.barrier()
    if rank == 0:
        dist.barrier()
    if full:
        if step % 3:
            continue
        if late:
            continue
        dist.barrier()
"""
ALWAYS = 2
OPEN = "Whether all ranks took one way there, the logs do not show."


def seen(folder: Path, line: int, *, before: bool = False) -> Finding:
    """Of a run in which rank 0 alone comes by a line to a barrier."""
    train = folder / "train.py"
    train.write_text(SCRIPT)
    run = Run(3)
    own = f"{train}:{line}"
    for rank in run:
        rank.record(Stack(stack=1, frames=[f"{train}:{ALWAYS} <module>"]))
        rank.record(Stack(stack=2, frames=[f"{own} <module>"]))
        for _ in range(4):
            call = rank.call("all_reduce", site=f"{train}:{ALWAYS}", stack=1)
            if before:
                call = rank.call("barrier", site=own, stack=2)
        if rank.rank == 0 and not before:
            call = rank.call("barrier", site=own, stack=2)
        else:
            call = rank.call("all_reduce", site=f"{train}:{ALWAYS}", stack=1)
        if rank.rank == 0 and before:
            call = rank.call("barrier", site=own, stack=2)
        elif before:
            call = rank.call("all_reduce", site=f"{train}:{ALWAYS}", stack=1)
        rank.beat(60, rank.inside(call))
    return errors(aligned(run, folder / "logs"))[0]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        pytest.param(8, ["`if empty:` (train.py:6)"], id="a way past the call"),
        pytest.param(
            16,
            [
                "`if empty:` (train.py:6) in `if step == 3:` (train.py:5)",
                "`if late:` (train.py:14)",
            ],
            id="but for one by turns",
        ),
    ],
)
def test_what_no_finding_tells_of(line: int, told: list[str], tmp_path: Path) -> None:
    finding = seen(tmp_path, line)
    found = " ".join(finding.notes)
    ways = " and ".join(f"{way}, with a continue" for way in told)
    assert f"on the way to barrier at train.py:{line} (rank 0)" in found.lower()
    assert f" {ways}. {OPEN}" in found
    assert "If the ranks parted at train.py:6" in finding.fix


def test_nothing_beside_what_is_known_to_have_decided(tmp_path: Path) -> None:
    assert OPEN not in " ".join(seen(tmp_path, 4).notes)


def test_a_rank_is_as_it_was_before(tmp_path: Path) -> None:
    found = " ".join(seen(tmp_path, 10, before=True).notes)
    assert "`if rank == 0:`" not in found


def test_who_raised_before_it_has_decided(tmp_path: Path) -> None:
    train = tmp_path / "train.py"
    train.write_text(SCRIPT)
    run = Run(2)
    for rank in run:
        rank.record(Stack(stack=1, frames=[f"{train}:8 <module>"]))
        call = rank.call("barrier", site=f"{train}:8", stack=1)
        if rank.rank == 0:
            call = rank.call("barrier", site=f"{train}:8", stack=1)
            rank.beat(60, rank.inside(call))
        else:
            rank.exit("exception", error="ValueError", message="no")
    found = errors(aligned(run, tmp_path / "logs"))[0]
    assert found.kind == "missing_call"
    assert OPEN not in " ".join(found.notes)
