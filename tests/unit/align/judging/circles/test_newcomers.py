"""The fewer ranks that came to a collective new to them, and what only looks like it."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from collectrace.align.judging.circles.newcomers import Newcomers, newcomers
from collectrace.records import Call
from tests.support.judging import aligned, errors, of_circles
from tests.support.synthetic import Rank, Run

SCRIPT = """for batch in loader:
    take(x)
    give(x)
    if number > 2:
        mean(x)
    back(g)
    hand_on(g)
    mean(g)
mean(x)
"""
LINES = {"take": 2, "give": 3, "back": 6, "return": 7}
INSIDE, KNOWN, BEHIND = 5, 8, 9
"""Lines of the sum."""


def pipelines(
    folder: Path,
    rounds: int = 3,
    *,
    world: int = 6,
    new: Collection[int] = (4, 5),
    known: bool = False,
    told: str = "",
    line: int = INSIDE,
    apart: int = 0,
) -> Run:
    """Two pipelines, each handing on down and back up; in the end some ranks are in a sum of all.

    Args:
        folder: of the script.
        rounds: that all came through.
        world: ranks, those of one pipeline every other one.
        new: who is in the sum instead of going on.
        known: the sum is made behind each round, from that line.
        told: an op by which rank 0 tells all something in each round.
        line: of the sum.
        apart: by which the line of the last rank is another.

    """
    script = folder / "job.py"
    script.write_text(SCRIPT)
    run = Run(world)
    for _ in range(rounds):
        if told:
            run.all(told, site="plan.py:3", dtype="int64", shape=[2])
        for rank in run:
            for what in LINES:
                _made(rank, what, world, str(script))
            if known:
                rank.call("all_reduce", site=f"{script}:{line}")
    for rank in run:
        _made(rank, "take", world, str(script))
        _made(rank, "give", world, str(script))
        if rank.rank in new:
            at = line + apart * (rank.rank == world - 1)
            rank.stuck_in(rank.call("all_reduce", site=f"{script}:{at}"))
        else:
            call = _made(rank, "back", world, str(script))
            assert call is not None
            rank.stuck_in(call)
    return run


def _made(rank: Rank, what: str, world: int, script: str) -> Call | None:
    """Of a neighbour up or down, where there is one."""
    up, down = rank.rank - 2, rank.rank + 2
    peer, site = down if what in ("give", "back") else up, f"{script}:{LINES[what]}"
    if not 0 <= peer < world:
        return None
    return (rank.send if what in ("give", "return") else rank.recv)(peer, site=site)


def found(run: Run, folder: Path) -> Newcomers | None:
    return of_circles(newcomers, run, folder)


def test_who_came_there_while_all_others_keep_their_round(tmp_path: Path) -> None:
    told = found(pipelines(tmp_path), tmp_path / "logs")
    assert told is not None
    assert (told.ranks, told.others) == ((4, 5), (0, 1, 2, 3))


def test_all_of_them_are_suspects(tmp_path: Path) -> None:
    first, *others = errors(aligned(pipelines(tmp_path), tmp_path / "logs"))
    assert (first.kind, first.suspects) == ("deadlock", (4, 5))
    assert first.cause.startswith(
        "Ranks 4-5 and no other rank came to all_reduce at job.py:5 for the first time. It is of "
        "the default group, and ranks 0-3, more than half of that, are each where every round "
        "before had led them, and wait for ranks 4-5, be it through others."
    )
    assert "If the all_reduce is meant for ranks 4-5 only: pass a group of those" in first.fix
    assert all(one.caused_by == 0 for one in others)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"world": 4, "new": (2, 3)}, id="half of the group"),
        pytest.param({"apart": 3}, id="from several lines"),
        pytest.param({"known": True}, id="it has its place in each round"),
        pytest.param({"rounds": 1}, id="one round is no habit"),
        pytest.param({"told": "broadcast"}, id="they may have been told to"),
        pytest.param(
            {"line": BEHIND}, id="behind the loop, which the others may be in for too long"
        ),
    ],
)
def test_it_is_not_proven(fields: dict[str, Any], tmp_path: Path) -> None:
    assert found(pipelines(tmp_path, **fields), tmp_path / "logs") is None
