"""A rank that finished where its round had always led to a message, and what only looks like it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collectrace.align.judging.gone_in_round import GoneInRound, gone_in_round
from collectrace.align.judging.judge import judge
from collectrace.records import Source, Stack
from tests.support.judging import case_of
from tests.support.synthetic import Run


def found(
    folder: Path,
    *,
    world: int = 4,
    rounds: int = 4,
    order: str = "lead.py:9 lead",
    absent: int = 0,
    raised: bool = False,
    op: str = "reduce",
    way: str = "7 break if error < 0.5:",
) -> GoneInRound | None:
    """Rank 0 sends all others something behind each reduce, and in the end ends there instead.

    Args:
        folder: where the rank files go.
        world: how many ranks.
        rounds: before.
        order: the frame in which rank 0 sends.
        absent: how many of the others have not come to the last reduce.
        raised: rank 0 ended by an exception.
        op: the collective of each round.
        way: what leads past the message.

    """
    run = Run(world)
    lead, *others = run
    lead.record(Stack(stack=1, frames=["lead.py:5 lead"]))
    lead.record(Stack(stack=2, frames=[order]))
    lead.record(Source(site="lead.py:5", lines=["5 error = error_of(turn)"]))
    lead.record(Source(site=order.partition(" ")[0], lines=["9 tell()"], ways=[way]))
    for _ in range(rounds):
        lead.call(op, site="lead.py:5", stack=1)
        for other in others:
            lead.send(other.rank, site=order.partition(" ")[0], stack=2)
            other.call(op, site="follow.py:3")
            other.recv(0, site="follow.py:5")
    lead.call(op, site="lead.py:5", stack=1)
    if raised:
        lead.exit("exception", error="ValueError", message="bad")
    else:
        lead.exit()
    for other in others[absent:]:
        other.call(op, site="follow.py:3")
        other.stuck_in(other.recv(0, site="follow.py:5"))
    case = case_of(run, folder)
    return next((told for one in judge(case) if (told := gone_in_round(case, one))), None)


def test_who_left_before_it_had_told_the_others(tmp_path: Path) -> None:
    told = found(tmp_path)
    assert told is not None
    assert (told.rank, told.waiters, told.rounds) == (0, (1, 2, 3), 4)
    assert (told.usual.op, told.last.op) == ("send", "reduce")


@pytest.mark.parametrize(
    "otherwise",
    [
        pytest.param({"world": 2}, id="one against one"),
        pytest.param({"rounds": 2}, id="two rounds are no habit"),
        pytest.param({"order": "lead.py:3 lead"}, id="the message begins the next round"),
        pytest.param({"absent": 1}, id="another has not come so far"),
        pytest.param({"raised": True}, id="it raised"),
        pytest.param({"op": "all_reduce"}, id="all got what it left by"),
        pytest.param({"way": "7 break if turn == 4:"}, id="it left by its count"),
        pytest.param({"way": "7 continue if error < 0.5:"}, id="it did not leave the loop"),
    ],
)
def test_it_is_not_proven(otherwise: dict[str, Any], tmp_path: Path) -> None:
    assert found(tmp_path, **otherwise) is None
