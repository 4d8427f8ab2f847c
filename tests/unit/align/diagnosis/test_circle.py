"""Who waits in what and for whom, told of all who wait together."""

from __future__ import annotations

from pathlib import Path

from tests.support.judging import aligned, errors
from tests.support.synthetic import Run


def told(folder: Path, *, lines: tuple[str, ...] = ("t.py:9",) * 5) -> str:
    """Ranks 0 to 2 are in a collective of all, ranks 3 and 4 in one of a group with ranks 1 and 2.

    ``lines``: where each is.
    """
    run = Run(5)
    run.group("1", [1, 2, 3, 4])
    for _ in range(3):
        run.all("barrier", site="t.py:2")
    for rank in run:
        group = "1" if rank.rank > 2 else "0"
        call = rank.call("all_reduce", group, site=lines[rank.rank])
        rank.beat(60, rank.inside(call))
    return errors(aligned(run, folder))[0].cause


def test_all_who_wait_in_one_call(tmp_path: Path) -> None:
    cause = told(tmp_path)
    assert "anks 0-2 wait in all_reduce of the default group at t.py:9 for ranks 3-4" in cause, (
        cause
    )
    assert "anks 3-4 wait in all_reduce of group 1 at t.py:9 for ranks 1-2" in cause


def test_who_came_from_another_line_is_not_told_to_be_there(tmp_path: Path) -> None:
    cause = told(tmp_path, lines=("t.py:8", "t.py:9", "t.py:9", "t.py:9", "t.py:7"))
    assert "anks 1-2 wait in all_reduce of the default group at t.py:9 for ranks 3-4" in cause
    assert "ank 3 waits in all_reduce of group 1 at t.py:9 for ranks 1-2" in cause
