"""Ranks that make a call of the round before its turn: when that proves something against them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from collectrace.align.judging import rounds
from collectrace.align.judging.judge import judge
from collectrace.align.judging.rounds import Leap
from collectrace.findings import Finding
from collectrace.records import Stack
from tests.support.judging import aligned, case_of, errors
from tests.support.synthetic import Run

STEPS = """\
def step(x):
    share(x)
    total(x)
    for y in x:
        total(y)
    if ready:
        meet(x)
    try:
        extra(x)
    except ValueError:
        pass
def serve():
    while True:
        step(get())
def report():
    total(rest)
    extra(rest)
"""
"""Lines 2 and 3 stand in one function, under nothing; 5, 7, 9 in a loop, an ``if``, a ``try``."""

OPS = {
    2: "broadcast",
    3: "all_reduce",
    5: "reduce",
    7: "barrier",
    9: "all_gather",
    16: "scatter",
    17: "all_gather",
}


def run_of(
    folder: Path,
    round_: Sequence[int],
    ends: Sequence[Sequence[int]],
    *,
    count: int = 4,
    served: bool = True,
) -> Run:
    """Ranks that make the calls of some lines in each round, and then each its own.

    ``served``: step() is called in serve(); else a framework calls it.
    """
    train = folder / "train.py"
    train.write_text(STEPS)
    run = Run(len(ends))
    for rank, end in zip(run, ends, strict=True):
        for line in OPS:
            frames = [f"{train}:{line} {'report' if line > 14 else 'step'}"]
            if served and line < 14:
                frames.append(f"{train}:14 serve")
            rank.record(Stack(stack=line, frames=frames))
        for line in [*[*round_] * count, *end]:
            call = rank.call(OPS[line], site=f"{train}:{line}", stack=line)
        rank.beat(60, rank.inside(call))
    return run


def judged(folder: Path, run: Run) -> tuple[Leap | None, tuple[int, ...]]:
    case = case_of(run, folder / "logs")
    candidate = judge(case)[0]
    return rounds.leap(case, candidate), candidate.suspects


def told(folder: Path, run: Run) -> Finding:
    return errors(aligned(run, folder / "logs"))[0]


def test_the_rest_of_a_round_left_out_in_one_function(tmp_path: Path) -> None:
    leap, suspects = judged(tmp_path, run_of(tmp_path, [2, 3, 9], [[2, 3], [2, 2]]))
    assert suspects == (1,)
    assert leap is not None
    assert [call.op for call in leap.skipped] == ["all_reduce", "all_gather"]
    assert (leap.rounds, leap.is_one_place, leap.is_new) == (4, False, True)


def test_it_is_told_with_what_may_have_led_past_it(tmp_path: Path) -> None:
    found = told(tmp_path, run_of(tmp_path, [2, 3, 9], [[2, 3], [2, 2]]))
    assert (
        "Rank 1 went on to broadcast at train.py:2 in step(), called at train.py:14 in serve(), "
        "without all_reduce at train.py:3 in step(), called at train.py:14 in serve(), and 1 more "
        "call, which came first in each of the 4 equal rounds before; rank 0 went on as in those."
        in found.cause
    )
    assert "a `continue`, a `return` or an exception that was caught" in found.cause
    assert "ambiguous" not in found.cause
    assert "Let all ranks agree" in found.fix


def test_a_try_around_what_was_left_out_is_named(tmp_path: Path) -> None:
    found = told(tmp_path, run_of(tmp_path, [2, 3, 9], [[2, 3, 9], [2, 3, 2]]))
    assert found.suspects == (1,)
    assert "`except ValueError:` (train.py:10) would have left it out" in found.cause


def test_of_two_rounds_none_is_a_habit(tmp_path: Path) -> None:
    leap, suspects = judged(tmp_path, run_of(tmp_path, [2, 3, 9], [[2, 3], [2, 2]], count=2))
    assert leap is not None
    assert suspects == ()


@pytest.mark.parametrize("line", [5, 7])
def test_a_loop_or_a_condition_of_its_own_may_be_right_on_either_side(
    line: int, tmp_path: Path
) -> None:
    leap, suspects = judged(tmp_path, run_of(tmp_path, [2, line, 9], [[2, line], [2, 9]]))
    assert leap is not None
    assert suspects == ()


def test_a_loop_that_was_shorter_is_told(tmp_path: Path) -> None:
    found = told(tmp_path, run_of(tmp_path, [2, 5, 5], [[2, 5, 5], [2, 5, 2]]))
    assert found.suspects == ()
    assert "stands in `for y in x:` (train.py:4): rank 1 had fewer turns of it" in found.cause
    assert found.fix.startswith("Give the loop the same length")


def test_a_loop_that_may_not_have_been_entered_is_not_told_to_be_shorter(tmp_path: Path) -> None:
    found = told(tmp_path, run_of(tmp_path, [2, 5, 5], [[2, 5, 5], [2, 2]]))
    assert found.suspects == ()
    assert "stands in `for y in x:` (train.py:4), in which rank 1 made no call" in found.cause
    assert "fewer turns" not in found.cause
    assert not found.fix.startswith("Give the loop")
    assert "If it was come to, and had no turn: give the loop the same length" in found.fix


@pytest.mark.parametrize("round_", [[2, 5, 5, 3], [2, 5, 5, 3, 9]])
def test_another_turn_of_an_inner_loop_leaves_nothing_out(
    round_: list[int], tmp_path: Path
) -> None:
    """What comes behind the loop may still come."""
    found = told(tmp_path, run_of(tmp_path, round_, [round_, [*round_[:-1], 5]]))
    assert found.suspects == ()
    assert "once more" in found.cause
    assert "went on to" not in found.cause


@pytest.mark.parametrize(("made", "suspects"), [(9, (1,)), (16, ())])
def test_of_two_functions_it_is_not_seen_what_runs_them(
    made: int, suspects: tuple[int, ...], tmp_path: Path
) -> None:
    run = run_of(tmp_path, [2, 3, 9, 16], [[2, 3], [2, made]], served=False)
    leap, blamed = judged(tmp_path, run)
    assert leap is not None
    assert blamed == suspects


def test_half_of_a_group_is_blamed_where_all_of_it_came_the_same_way(tmp_path: Path) -> None:
    ends = [[2, 3, 9, 2, 3], [2, 3, 9, 2, 3], [2, 3, 9, 2, 2], [2, 3, 9, 2, 2]]
    assert judged(tmp_path, run_of(tmp_path, [2, 3, 9], ends))[1] == (2, 3)


def test_half_of_a_group_that_came_by_several_ways_is_not(tmp_path: Path) -> None:
    ends = [[2, 3, 9, 2, 3], [2, 3, 9, 2, 3], [2, 3, 9, 2, 2], [2, 3, 17, 2, 2]]
    assert judged(tmp_path, run_of(tmp_path, [2, 3, 9], ends))[1] == ()


@pytest.mark.parametrize(("times", "is_apart"), [(2, True), (4, False)])
def test_who_was_at_another_line_before_is_apart_since_then(
    times: int, *, is_apart: bool, tmp_path: Path
) -> None:
    """Unless that is how the program goes: then it is a round like any other."""
    ends = [[*[2, 3, 9] * times, 2, 3], [*[2, 3, 17] * times, 2, 2]]
    assert (judged(tmp_path, run_of(tmp_path, [2, 3, 9], ends))[0] is None) == is_apart


def test_a_round_that_was_cut_before_may_be_so_again(tmp_path: Path) -> None:
    ends = [[2, 2, 3, 9, *[2, 3, 9] * 4, *end] for end in ([2, 3], [2, 2])]
    leap, suspects = judged(tmp_path, run_of(tmp_path, [2, 3, 9], ends))
    assert leap is not None
    assert not leap.is_new
    assert suspects == ()


def test_a_call_of_no_round_is_no_leap(tmp_path: Path) -> None:
    assert judged(tmp_path, run_of(tmp_path, [2, 3, 9], [[2, 3], [2, 16]]))[0] is None


def test_most_of_the_group_may_be_who_left_it(tmp_path: Path) -> None:
    """Blame is the majority's; and who is innocent is not told to have left anything out."""
    found = told(tmp_path, run_of(tmp_path, [2, 3, 9], [[2, 3], [2, 2], [2, 2]]))
    assert found.suspects == (0,)
    assert "without" not in found.cause


def test_rounds_are_counted_beyond_the_window(tmp_path: Path) -> None:
    """In which they are looked for."""
    found = told(tmp_path, run_of(tmp_path, [2, 3, 9], [[2, 3], [2, 2]], count=300))
    assert "in each of the 300 equal rounds before" in found.cause
    assert any("after 300 equal rounds" in note for note in found.notes)
