"""Lines that parted before anything failed: calls left out, calls too many, loops that ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from collectrace.align.diagnosis import parted
from collectrace.align.diagnosis.wording import ONE_LENGTH, Reason
from collectrace.align.judging import parted as parting
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.judge import judge
from collectrace.records import Stack
from tests.support.judging import case_of
from tests.support.synthetic import Run

ROUND = (10, 11, 12)
BARRIER = 15


def judged(
    folder: Path, programs: Mapping[int, Sequence[int]], frames: Mapping[int, list[str]]
) -> tuple[Case, Candidate]:
    """Ranks that come from these lines: all_reduces of one size, and barriers.

    ``frames``: the user's frames above the call of each line.
    """
    run = Run(len(programs))
    for rank in run:
        for line, stack in frames.items():
            rank.record(Stack(stack=line, frames=stack))
        for line in programs[rank.rank]:
            op = "barrier" if line == BARRIER else "all_reduce"
            site = frames[line][0].partition(" ")[0]
            call = rank.call(op, site=site, stack=line)
        rank.beat(60, rank.inside(call))
    case = case_of(run, folder)
    return case, judge(case)[0]


def flat(*lines: int) -> dict[int, list[str]]:
    return {line: [f"/job/train.py:{line} <module>"] for line in lines}


def with_rounds(folder: Path, odd: Sequence[int]) -> tuple[Case, Candidate]:
    """Six rounds and a barrier; in the fourth round rank 2 comes from other lines."""
    whole = [*ROUND * 6, BARRIER]
    other = [*ROUND * 3, *odd, *ROUND * 2, BARRIER]
    return judged(folder, {0: whole, 1: whole, 2: other}, flat(*ROUND, BARRIER, 20))


# -- calls left out, and calls too many ------------------------------------------------------------


def told(case: Case, candidate: Candidate) -> Reason:
    found = parted.extra(case, candidate)
    assert found is not None
    return found


SERVER = """\
def serve():
    for request in requests:
        if not cached:
            prefill()
        decode()
        decode()
    dist.barrier()
"""


@pytest.mark.parametrize(
    ("condition", "told_of"), [("if not cached:", True), ("with lock:", False)]
)
def test_the_condition_around_what_was_left_out(
    condition: str, told_of: bool, tmp_path: Path
) -> None:
    train = tmp_path / "train.py"
    train.write_text(SERVER.replace("if not cached:", condition))
    frames = {line: [f"{train}:{line} serve"] for line in (4, 5, 6, 7)}
    frames[BARRIER] = frames.pop(7)
    whole = [*(4, 5, 6) * 6, BARRIER]
    less = [*(4, 5, 6) * 3, 5, 6, *(4, 5, 6) * 2, BARRIER]
    reason = told(*judged(tmp_path / "logs", {0: whole, 1: whole, 2: less}, frames))
    assert "rank 2, at train.py:5, left out all_reduce at train.py:4" in reason.cause
    where = f"The all_reduce of ranks 0-1 stands under `{condition}` (train.py:3)."
    assert (where in reason.cause) is told_of
    assert (f"`{condition}` (train.py:3)" in reason.fix) is told_of
    assert ("look above train.py:4" in reason.fix) is not told_of


def test_a_call_that_the_suspect_left_out(tmp_path: Path) -> None:
    case, candidate = with_rounds(tmp_path, (10, 11))
    assert candidate.suspects == (2,)
    found = told(case, candidate)
    assert found.cause == (
        "From call 12 on rank 2, at train.py:10, left out all_reduce at train.py:12, 1 call that "
        "ranks 0-1 made there; behind them its calls are those of ranks 0-1 again, 1 call earlier. "
        "Their bytes fit what ranks 0-1 issued meanwhile, so nothing failed before call 18."
    )
    assert "a branch that rank 2 did not take, or a loop that was shorter there" in found.fix


def test_a_call_that_the_suspect_made_twice(tmp_path: Path) -> None:
    found = told(*with_rounds(tmp_path, (10, 11, 11, 12)))
    assert (
        "From call 12 on rank 2 issued all_reduce at train.py:11, 1 call that ranks 0-1, at "
        "train.py:12, did not make there" in (found.cause)
    )
    assert "left out" not in found.cause
    assert "a branch that only rank 2 takes" in found.fix


def test_a_call_from_a_line_where_nobody_else_ever_was(tmp_path: Path) -> None:
    found = told(*with_rounds(tmp_path, (10, 11, 20, 12)))
    assert (
        "rank 2 issued all_reduce at train.py:20, 1 call that ranks 0-1, at train.py:12, never made"
        in found.cause
    )


def test_fewer_calls_behind_them_than_they_are_may_fit_by_chance(tmp_path: Path) -> None:
    four = (*ROUND, 13)
    whole, other = [*four * 6, 10, BARRIER], [*four * 5, 10, 10, BARRIER]
    case, candidate = judged(tmp_path, {0: whole, 1: whole, 2: other}, flat(*four, BARRIER))
    found = parting.parted(case, candidate)
    assert found is not None
    assert found.extra is not None
    assert (len(found.extra.calls), found.extra.agreeing) == (3, 2)
    assert parted.extra(case, candidate) is None


# -- a loop that ended earlier on one rank ---------------------------------------------------------

EPOCHS = """\
def fit():
    for batch in loader:
        total(batch)
for epoch in range(9):
    fit()
    report()
dist.barrier()
"""


def epochs(folder: Path, odd: Sequence[int]) -> Reason | None:
    """Three epochs of three batches and a report; rank 2's second epoch is another."""
    script = folder / "train.py"
    script.write_text(EPOCHS)
    frames = {
        3: [f"{script}:3 fit", f"{script}:5 <module>"], 6: [f"{script}:6 <module>"],
        BARRIER: [f"{script}:7 <module>"],
    }  # fmt: skip
    epoch = (3, 3, 3, 6)
    whole, other = [*epoch * 3, BARRIER], [*epoch, *odd, *epoch, BARRIER]
    case, candidate = judged(folder / "logs", {0: whole, 1: whole, 2: other}, frames)
    return parted.lines(case, candidate)


def test_a_loop_that_ended_earlier_on_one_rank(tmp_path: Path) -> None:
    found = epochs(tmp_path, (3, 3, 6))
    assert found is not None
    assert found.cause == (
        "At call 7 rank 2 is out of the loop `for batch in loader:` (train.py:2), at train.py:6; "
        "ranks 0-1 go through it once more, at train.py:3: the loop ended earlier on rank 2. Their "
        "calls fitted until here, so nothing failed before call 12."
    )
    assert found.fix == ONE_LENGTH


def test_a_loop_that_was_never_entered_has_not_ended_there(tmp_path: Path) -> None:
    found = epochs(tmp_path, (6,))
    assert found is not None
    assert "the loop ended earlier" not in found.cause
    assert "Since call 5 rank 2 has been at train.py:6, ranks 0-1 at train.py:5" in found.cause
