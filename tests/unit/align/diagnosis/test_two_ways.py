"""Ranks in the two arms of a condition whose calls come in another order; and what is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.findings import Finding
from tests.support.judging import aligned, errors
from tests.support.stacks import Stacks
from tests.support.synthetic import Run

GUARD = """\
def step():
    if not active:
        idle()
        return
    work()
"""
FORK = """\
def step():
    if active:
        idle()
    else:
        work()
"""
PLAIN = """\
def step():
    if active:
        idle()
    pass
    work()
"""
IDLE, WORK = "3 step", "5 step"
Calls = tuple[tuple[str, int], ...]
"""The line of the arm that leads there, and the size."""
USUAL: Calls = ((WORK, 1), (WORK, 4))


def told(folder: Path, source: str, mine: Calls, others: Calls, before: Calls = USUAL) -> Finding:
    """Rank 0 after three common steps, by one helper; each size is of a line of its own there."""
    train = folder / "train.py"
    train.write_text(source)
    run, stacks = Run(3), Stacks()
    for rank in run:
        for arm, size in [*before * 3, *(others if rank.rank else mine)]:
            frames = [f"/job/comm.py:{size} total", f"/job/model.py:{size} run", f"{train}:{arm}"]
            call = rank.call("all_reduce", shape=[size], **stacks.at(rank, *frames))
        rank.beat(60, rank.inside(call))
    return errors(aligned(run, folder / "logs"))[0]


@pytest.mark.parametrize("source", [GUARD, FORK])
def test_the_first_of_both_arms_met(source: str, tmp_path: Path) -> None:
    found = told(tmp_path, source, ((IDLE, 1), (IDLE, 8)), USUAL)
    assert found.suspects == (0,)
    condition = "`if not active:`" if source == GUARD else "`if active:`"
    assert (
        f"Since call 7 rank 0 has been in one arm of {condition} (train.py:2), at train.py:3, "
        "ranks 1-2 in the other, at train.py:5. Both began with all_reduce at comm.py:1, so "
        "nothing failed; then rank 0 went on to model.py:8 (all_reduce at comm.py:8), ranks 1-2 to "
        "model.py:4 (all_reduce at comm.py:4): the two do not issue the same calls in one order."
    ) in found.cause
    assert "issue the same collectives in each, at train.py:3 and at train.py:5" in found.fix


def test_lines_of_which_both_are_come_to(tmp_path: Path) -> None:
    found = told(tmp_path, PLAIN, ((IDLE, 1), (IDLE, 8)), USUAL)
    assert "one arm" not in found.cause


def test_arms_that_all_go_through_in_turn(tmp_path: Path) -> None:
    """One of them may be a turn further: that the arms differ is meant."""
    before = (*USUAL, (IDLE, 1), (IDLE, 8))
    found = told(tmp_path, FORK, ((IDLE, 1), (IDLE, 8)), USUAL, before)
    assert "one arm" not in found.cause


def test_an_arm_that_was_left(tmp_path: Path) -> None:
    found = told(tmp_path, GUARD, ((IDLE, 1), (WORK, 8)), USUAL)
    assert "one arm" not in found.cause


def test_arms_that_begin_with_calls_of_different_lines(tmp_path: Path) -> None:
    train = tmp_path / "train.py"
    train.write_text(GUARD)
    run, stacks = Run(3), Stacks()
    for rank in run:
        last = (IDLE, 7) if rank.rank == 0 else (WORK, 4)
        for arm, line, size in [(WORK, 4, 1)] * 6 + [(*last, 1), (*last, last[1])]:
            frames = [f"/job/comm.py:{line} total", f"{train}:{arm}"]
            call = rank.call("all_reduce", shape=[size], **stacks.at(rank, *frames))
        rank.beat(60, rank.inside(call))
    assert "one arm" not in errors(aligned(run, tmp_path / "logs"))[0].cause
