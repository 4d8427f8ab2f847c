"""Rows of one call that a rank made shorter than each time before, and what only looks like it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from collectrace.findings import Finding
from collectrace.records import Call
from tests.support.judging import aligned, errors
from tests.support.synthetic import Rank, Run

PIECES = 4


def told(
    folder: Path,
    *,
    world: int = 4,
    pieces: Sequence[int] = (PIECES,) * 4,
    last: int = PIECES - 1,
    starved: Mapping[int, int] | None = None,
    number: bool = False,
    loss: bool = False,
) -> Finding:
    """A pipeline in which the first stage sends ``last`` pieces in the end, then awaits an answer.

    Args:
        folder: where the rank files go.
        world: stages.
        pieces: how many go through it in each round before.
        last: how many the first stage sends in the end.
        starved: by stage, fewer pieces that it has got in the end.
        number: all call a broadcast of one number ahead of each round.
        loss: and one behind it.

    """
    run = Run(world)
    for count in pieces:
        if number:
            run.all("broadcast", shape=[1], dtype="int64", site="plan.py:3")
        _forwards(run, count)
        for _ in range(count):
            for rank in reversed(list(run)):
                _answers(rank, world)
        if loss:
            run.all("broadcast", shape=[1], root=world - 1, site="loss.py:3")
    if number:
        run.all("broadcast", shape=[1], dtype="int64", site="plan.py:3")
    for _ in range(last):
        run.rank(0).send(1, site="stage.py:5")
    run.rank(0).stuck_in(run.rank(0).recv(1, site="stage.py:9"))
    for rank in list(run)[1:]:
        call = None
        for n in range((starved or {}).get(rank.rank, last) + 1):
            if n and rank.rank < world - 1:
                rank.send(rank.rank + 1, site="stage.py:5")
            call = rank.recv(rank.rank - 1, site="stage.py:3")
        assert call is not None
        rank.stuck_in(call)
    return next(one for one in errors(aligned(run, folder)) if one.caused_by is None)


def _forwards(run: Run, count: int) -> None:
    for _ in range(count):
        for rank in run:
            if rank.rank:
                rank.recv(rank.rank - 1, site="stage.py:3")
            if rank.rank < run.world - 1:
                rank.send(rank.rank + 1, site="stage.py:5")


def _answers(rank: Rank, world: int) -> Call | None:
    call = rank.recv(rank.rank + 1, site="stage.py:9") if rank.rank < world - 1 else None
    return rank.send(rank.rank - 1, site="stage.py:11") if rank.rank else call


def test_one_rank_ended_a_row_early(tmp_path: Path) -> None:
    found = told(tmp_path)
    assert found.kind == "deadlock"
    assert "It made 3 send calls there before it went on, 4 each of the 4 times before." in (
        found.cause
    )
    assert "the same number of steps in each round" in found.fix


def test_the_others_may_have_been_told_the_number(tmp_path: Path) -> None:
    found = told(tmp_path, number=True)
    assert found.suspects == ()
    assert "let every rank go by the number that was told there" in found.fix
    assert "plan.py:3" in found.fix
    assert "send it first" not in found.fix


def test_what_comes_behind_the_row_tells_nothing_of_it(tmp_path: Path) -> None:
    found = told(tmp_path, loss=True)
    assert "send it first" in found.fix


@pytest.mark.parametrize(
    "how",
    [
        pytest.param({"world": 2}, id="one against one"),
        pytest.param({"pieces": (4, 4)}, id="two rows are no habit"),
        pytest.param({"pieces": (4, 3, 4, 4, 4)}, id="rows of other lengths before"),
        pytest.param({"starved": {3: 0}}, id="the last stage is at the first of its row"),
        pytest.param({"pieces": (1,) * 5, "last": 0}, id="one piece is no row"),
    ],
)
def test_what_proves_nothing(how: dict[str, object], tmp_path: Path) -> None:
    assert told(tmp_path, **how).suspects == ()  # type: ignore[arg-type]
