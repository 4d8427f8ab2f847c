"""How the calls of a rank depart from those of others, and from its own iterations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from collectrace.align.judging import departures
from collectrace.align.judging.departures import Departure, What
from collectrace.align.judging.judge import judge
from tests.support.judging import case_of
from tests.support.synthetic import Run

ROUND = (10, 11, 12)
"""Lines of the calls of an iteration."""


def ran(folder: Path, *programs: Sequence[int], **how: bool) -> tuple[Departure | None, ...]:
    """Return what departs in a run in which each rank called from some lines.

    A negative line is one whose call only differs from the usual one in its size.
    """
    run = Run(len(programs))
    for rank, lines in zip(run, programs, strict=True):
        for line in lines:
            op = "barrier" if line > 19 else "all_reduce"
            rank.call(op, shape=[line], site=f"/job/train.py:{line}")
        if how.get("finished"):
            rank.exit()
    case = case_of(run, folder)
    candidate = next(one for one in judge(case) if one.severity == "error")
    return departures.from_own(case, candidate), departures.extra(case, candidate)


@pytest.mark.parametrize(
    ("last", "what", "calls"),
    [
        pytest.param((10, 12), What.SKIPPED, [11], id="one call skipped"),
        pytest.param((12,), What.SKIPPED, [10, 11], id="two calls skipped"),
        pytest.param((10, 20), What.EXTRA, [20], id="a call that is new to it"),
        pytest.param((10, 10), What.SKIPPED, [11, 12], id="the rest of an iteration"),
    ],
)
def test_one_rank_departs_from_its_iterations(
    last: tuple[int, ...], what: What, calls: list[int], tmp_path: Path
) -> None:
    own, _ = ran(tmp_path, [*ROUND * 4, *last], ROUND * 5)
    assert own is not None
    assert (own.what, own.ranks, own.alike) == (what, (0,), 4)
    assert [call.site for call in own.calls] == [f"/job/train.py:{line}" for line in calls]


def test_a_rank_that_finished_within_an_iteration(tmp_path: Path) -> None:
    own, _ = ran(tmp_path, [*ROUND * 4, 10], ROUND * 5, finished=True)
    assert own is not None
    assert (own.what, own.ranks) == (What.ENDED, (0,))


@pytest.mark.parametrize(
    "programs",
    [
        pytest.param(([*ROUND * 4, 10, 20], [*ROUND * 4, 10, 15]), id="both departed"),
        pytest.param(([20], [10]), id="nothing is usual yet"),
        pytest.param(([*ROUND * 4, 10, 11, 12, 13], [*ROUND * 4, 10, 11, 12, 14]), id="all new"),
    ],
)
def test_nobody_alone_departs(programs: tuple[Sequence[int], ...], tmp_path: Path) -> None:
    own, _ = ran(tmp_path, *programs)
    assert own is None


def test_the_ranks_of_a_side_must_depart_alike(tmp_path: Path) -> None:
    alike = [*ROUND * 4, 10, 12], [*ROUND * 4, 10, 12], ROUND * 5, ROUND * 5
    own, _ = ran(tmp_path / "alike", *alike)
    assert own is not None
    assert own.ranks == (0, 1)
    other = [*ROUND * 2, 10, 12, *ROUND, 10, 11, 12], *alike[1:]
    own, _ = ran(tmp_path / "other", *other)
    assert own is None or own.ranks != (0, 1)


def test_calls_that_one_side_made_too_many(tmp_path: Path) -> None:
    """They met calls of the other side of the same size, and nothing failed at once."""
    run = Run(2)
    zero, one = run
    for rank in run:
        for _ in range(4):
            rank.call("all_reduce", shape=[4], site="/job/train.py:10")
            rank.call("all_reduce", shape=[6], site="/job/train.py:11")
    zero.call("all_reduce", shape=[4], site="/job/train.py:30")
    for rank in run:
        rank.call("all_reduce", shape=[4], site="/job/train.py:10")
        rank.call("all_reduce", shape=[6], site="/job/train.py:11")
    one.call("all_reduce", shape=[4], site="/job/train.py:10")
    case = case_of(run, tmp_path)
    found = departures.extra(case, next(one for one in judge(case) if one.severity == "error"))
    assert found is not None
    assert (found.what, found.ranks) == (What.EXTRA, (0,))
    assert (found.others, found.seq) == ((1,), 9)
    assert [call.site for call in found.calls] == ["/job/train.py:30"]


def test_an_iteration_in_which_a_rank_made_no_call(tmp_path: Path) -> None:
    run = Run(2)
    for rank in run:
        for iteration in range(1, 6):
            if (rank.rank, iteration) != (1, 3):
                rank.call("all_reduce", shape=[4], site="/job/train.py:9", iteration=iteration)
        rank.exit()
    case = case_of(run, tmp_path)
    candidate = next(one for one in judge(case) if one.severity == "error")
    found = departures.skipped_iterations(case, candidate)
    assert found is not None
    assert (found.what, found.ranks, found.others) == (What.FEWER_ITERATIONS, (1,), (0,))
    assert (found.iteration, found.seq) == (3, 3)
    assert candidate.verdict is not None
    candidate.verdict = replace(candidate.verdict, suspects=(0,))
    assert departures.skipped_iterations(case, candidate) is None
