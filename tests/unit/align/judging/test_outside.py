"""Calls that torch ignored: when they explain that a rank lacks a call, and when they do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.findings import Finding
from collectrace.records import Outside
from tests.support.judging import aligned
from tests.support.synthetic import Rank, Run

LINE = "/job/layers.py:34"


def grid() -> Run:
    """Two groups of two; rank 0 waits in the first for rank 1, and the others in a barrier."""
    run = Run(4)
    run.group("row0", [0, 1], site="/job/mesh.py:9")
    run.group("row1", [2, 3], site="/job/mesh.py:9")
    return run


def ignores(rank: Rank, site: str = LINE) -> None:
    rank.record(Outside(op="all_reduce", site=site))


def end(run: Run) -> None:
    run.rank(0).stuck_in(run.rank(0).call("all_reduce", "row0", site=LINE))
    for rank in (1, 2, 3):
        run.rank(rank).stuck_in(run.rank(rank).call("barrier", site="/job/train.py:70"))


def first(run: Run, folder: Path) -> Finding:
    return aligned(run, folder).findings[0]


def test_who_is_not_in_the_group_is_blamed(tmp_path: Path) -> None:
    run = grid()
    ignores(run.rank(1))
    run.rank(2).call("all_reduce", "row1", site="/job/other.py:1")
    run.rank(3).call("all_reduce", "row1", site="/job/other.py:1")
    end(run)
    found = first(run, tmp_path)
    assert (found.code, found.suspects) == ("CT608", (1,))
    assert [row.fact for row in found.evidence or ()] == ["outside_of_group"]


@pytest.mark.parametrize("why", ["it issued a call there", "the waiter passes others too"])
def test_a_line_that_passes_every_group_explains_nothing(why: str, tmp_path: Path) -> None:
    run = grid()
    ignores(run.rank(1))
    if why == "it issued a call there":
        for rank in (0, 1):
            run.rank(rank).call("all_reduce", "row0", site=LINE)
    else:
        ignores(run.rank(0))
    end(run)
    assert first(run, tmp_path).code != "CT608"


def test_an_ignored_call_of_another_line_explains_nothing(tmp_path: Path) -> None:
    run = grid()
    ignores(run.rank(1), "/job/metrics.py:5")
    end(run)
    assert first(run, tmp_path).code != "CT608"
