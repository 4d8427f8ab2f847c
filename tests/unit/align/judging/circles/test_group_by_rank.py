"""A rank that came alone, by its rank, to a collective of a group, and what only looks like it."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from collectrace.align.judging.circles.group_by_rank import GroupByRank, group_by_rank
from tests.support.judging import aligned, errors, of_circles
from tests.support.stacks import Stacks
from tests.support.synthetic import Rank, Run

SCRIPT = """\
def upload():
    {condition}
        gather()
    {more}
        pass
    barrier()
for step in range(9):
    total()
    upload()
"""
GATHER, BARRIER, TOTAL, CALLER = 3, 6, 8, 9


def uploads(
    folder: Path,
    condition: str = "if rank == 0:",
    *,
    more: str = "if steps:",
    before: Collection[int] = (),
) -> Run:
    """Two groups of two; in the end rank 0 alone gathers in its own, the others are behind it.

    Args:
        folder: of the script.
        condition: around the gathering.
        more: what stands behind it.
        before: who had gathered once before, and had come together there.

    """
    script = folder / "job.py"
    script.write_text(SCRIPT.format(condition=condition, more=more))
    run, stacks = Run(4), Stacks()
    run.group("dp0", [0, 2])
    run.group("dp1", [1, 3])

    def at(rank: Rank, line: int) -> dict[str, Any]:
        inner = [f"{script}:{line} upload", f"{script}:{CALLER} <module>"]
        return stacks.at(rank, *(inner if line != TOTAL else [f"{script}:{TOTAL} <module>"]))

    for rank in run:
        rank.call("all_reduce", **at(rank, TOTAL))
        if rank.rank in before:
            rank.call("all_gather", f"dp{rank.rank % 2}", **at(rank, GATHER))
    for rank in run:
        if rank.rank == 0:
            rank.stuck_in(rank.call("all_gather", "dp0", **at(rank, GATHER)))
        else:
            rank.stuck_in(rank.call("barrier", **at(rank, BARRIER)))
    return run


def found(run: Run, folder: Path) -> GroupByRank | None:
    return of_circles(group_by_rank, run, folder / "logs")


def test_who_came_there_by_its_rank(tmp_path: Path) -> None:
    told = found(uploads(tmp_path), tmp_path)
    assert told is not None
    assert (told.rank, told.passed) == (0, (2,))
    assert (told.call.op, told.awaited.op) == ("all_gather", "barrier")


def test_it_is_told_by_its_condition(tmp_path: Path) -> None:
    finding = errors(aligned(uploads(tmp_path), tmp_path / "logs"))[0]
    assert (finding.kind, finding.suspects) == ("deadlock", (0,))
    assert finding.cause.startswith("Rank 0 alone came to all_gather at job.py:3")
    assert "under `if rank == 0:` (job.py:2), which asks for the rank; rank 2 of group dp0 has" in (
        finding.cause
    )
    assert "out of `if rank == 0:` (job.py:2): every rank of its group makes the call" in (
        finding.fix
    )


@pytest.mark.parametrize(
    ("condition", "how"),
    [
        pytest.param("if loss < best:", {}, id="not by the rank"),
        pytest.param("if rank == 2:", {}, id="that keeps it out"),
        pytest.param("if rank == 0 or batches():", {}, id="by what it held"),
        pytest.param("if rank == 0:", {"more": "else:"}, id="where the others have an arm"),
        pytest.param("if rank == 0:", {"before": (0, 2)}, id="both had been there"),
        pytest.param("if rank == 0:", {"before": (1, 3)}, id="the other group had been there"),
    ],
)
def test_it_is_not_proven(condition: str, how: dict[str, Any], tmp_path: Path) -> None:
    assert found(uploads(tmp_path, condition, **how), tmp_path) is None
