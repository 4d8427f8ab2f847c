"""A rank that had been out of step with a group before, and what only looks like it."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.align.judging.circles.drifted import Drifted, drifted
from tests.support.judging import aligned, errors, of_circles
from tests.support.stacks import Stacks
from tests.support.synthetic import Run

NORM, STATS, END = "/job/norm.py:5", "/job/train.py:8", "/job/train.py:12"


def steps(world: int = 3, *, apart: bool = False, leader: bool = False) -> Run:
    """Each step sums the norm and the loss; in the last four of seven the last rank skips the norm.

    It comes to the barrier behind, where the others are in a norm that it has no part in.

    Args:
        world: ranks.
        apart: whether another rank sums its norm in another line in the end.
        leader: whether the last rank has lines of its own from the first.

    """
    run, stacks = Run(world), Stacks()
    run.group("1", range(world))
    for n in range(7):
        for rank in run:
            last = rank.rank == world - 1
            norm = "/job/clip.py:9" if apart and rank.rank == 1 and n >= 3 else NORM
            stats = "/job/leader.py:3" if leader and last else STATS
            norm = "/job/leader.py:2" if leader and last else norm
            of_norm = stacks.at(rank, f"{norm} norm", "/job/train.py:6 f")
            if not last and n > 5:
                continue
            if not last and n == 5:
                rank.stuck_in(rank.call("all_reduce", "1", **of_norm))
                continue
            if not last or n < 3:
                rank.call("all_reduce", "1", **of_norm)
            at = stacks.at(rank, f"{stats} stats", "/job/train.py:7 f")
            rank.call("all_reduce", "1", **at)
    last_rank = run.rank(world - 1)
    last_rank.stuck_in(last_rank.call("barrier", **stacks.at(last_rank, f"{END} f")))
    return run


def found(run: Run, folder: Path) -> Drifted | None:
    return of_circles(drifted, run, folder)


def test_since_when(tmp_path: Path) -> None:
    told = found(steps(), tmp_path)
    assert told is not None
    assert (told.rank, told.others, told.stream.group, told.seq) == (2, (0, 1), "1", 7)
    assert (told.made.site, told.met.site) == (STATS, NORM)


def test_it_is_told_by_the_first_row(tmp_path: Path) -> None:
    finding = errors(aligned(steps(), tmp_path))[0]
    assert (finding.kind, finding.suspects) == ("deadlock", (2,))
    assert finding.cause.startswith("At call 7 of group 1 rank 2 issued all_reduce at train.py:8")
    assert "both fit, so nothing failed there, but rank 2 has been out of step since" in (
        finding.cause
    )


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(steps(2), id="one against one"),
        pytest.param(steps(leader=True), id="from lines of its own, as ever"),
        pytest.param(steps(apart=True), id="the others are apart, too"),
    ],
)
def test_it_is_not_proven(run: Run, tmp_path: Path) -> None:
    assert found(run, tmp_path) is None
