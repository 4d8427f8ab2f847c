"""What else stands on the way to a call: said where what decided is not known, and of no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.records import Stack
from tests.support.judging import aligned, errors
from tests.support.lone_barrier import SCRIPT, lone_barrier
from tests.support.synthetic import Run

OPEN = "Whether all ranks took one way there, the logs do not show."


@pytest.mark.parametrize(
    ("line", "told"),
    [
        pytest.param(10, ["`if empty:` (train.py:8)"], id="a way past the call"),
        pytest.param(
            26,
            [
                "`if empty:` (train.py:8) in `if step == 3:` (train.py:7)",
                "`if late:` (train.py:24)",
            ],
            id="but for one by turns",
        ),
    ],
)
def test_what_no_finding_tells_of(line: int, told: list[str], tmp_path: Path) -> None:
    finding = lone_barrier(tmp_path, [line])
    found = " ".join(finding.notes)
    ways = " and ".join(f"{way}, with a continue" for way in told)
    assert f"on the way to barrier at train.py:{line} (rank 0)" in found.lower()
    assert f" {ways}. {OPEN}" in found
    assert "If the ranks parted at train.py:8" in finding.fix


def test_nothing_beside_what_is_known_to_have_decided(tmp_path: Path) -> None:
    assert OPEN not in " ".join(lone_barrier(tmp_path, [6]).notes)


def test_a_rank_is_as_it_was_before(tmp_path: Path) -> None:
    found = " ".join(lone_barrier(tmp_path, [20], before=True).notes)
    assert "`if rank == 0:`" not in found


def test_who_raised_before_it_has_decided(tmp_path: Path) -> None:
    train = tmp_path / "train.py"
    train.write_text(SCRIPT)
    run = Run(2)
    for rank in run:
        rank.record(Stack(stack=1, frames=[f"{train}:10 <module>"]))
        call = rank.call("barrier", site=f"{train}:10", stack=1)
        if rank.rank == 0:
            call = rank.call("barrier", site=f"{train}:10", stack=1)
            rank.beat(60, rank.inside(call))
        else:
            rank.exit("exception", error="ValueError", message="no")
    found = errors(aligned(run, tmp_path / "logs"))[0]
    assert found.kind == "missing_call"
    assert OPEN not in " ".join(found.notes)
