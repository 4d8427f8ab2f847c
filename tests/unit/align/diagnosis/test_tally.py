"""Messages counted by channel and line, and steps of a pipeline out of their order."""

from __future__ import annotations

from pathlib import Path

from collectrace.records import Call
from tests.support.judging import aligned, errors
from tests.support.synthetic import Rank, Run


def stuck(rank: Rank, call: Call) -> None:
    rank.beat(60, rank.inside(call))


def pipeline(rounds: int = 5) -> Run:
    """Activations go from rank 0 to rank 1, gradients back."""
    run = Run(world=2)
    for _ in range(rounds):
        run.rank(0).send(1, site="stage.py:15")
        run.rank(1).recv(0, site="stage.py:31")
        run.rank(1).send(0, site="stage.py:33")
        run.rank(0).recv(1, site="stage.py:17")
    return run


def test_messages_that_met_are_counted(tmp_path: Path) -> None:
    run = pipeline()
    run.all("barrier")
    run.finish()
    alignment = aligned(run, tmp_path)
    assert (alignment.evidence.agreed, alignment.evidence.messages) == (1, 10)


def test_sends_that_nobody_takes_are_told_by_line(tmp_path: Path) -> None:
    run = pipeline(20)
    for _ in range(4):
        run.rank(0).send(1, site="stage.py:21")
    run.finish()
    (found,) = errors(aligned(run, tmp_path))
    assert (
        "Rank 0 sent 24 (20 from stage.py:15, 4 from stage.py:21), rank 1 received 20 (from "
        "stage.py:31)."
    ) in found.cause


def test_a_circle_behind_a_step_too_many(tmp_path: Path) -> None:
    """Rank 0 ran four steps more, and both wait for each other behind them."""
    run = pipeline(20)
    zero, one = run
    for _ in range(4):
        zero.send(1, site="stage.py:21")
    stuck(zero, zero.recv(1, site="stage.py:17"))
    stuck(one, one.call("barrier"))
    (found, *_) = errors(aligned(run, tmp_path))
    assert (found.kind, found.suspects) == ("deadlock", ())
    assert "rank 0 sent rank 1 24 (20 from stage.py:15, 4 from stage.py:21)" in found.cause
    assert "Each is right by itself" not in found.cause
    assert "Turn one of them round" not in found.fix


def test_a_step_that_is_made_too_early(tmp_path: Path) -> None:
    run = pipeline()
    zero, one = run
    stuck(zero, zero.recv(1, site="stage.py:17"))
    stuck(one, one.recv(0, site="stage.py:31"))
    (found, *_) = errors(aligned(run, tmp_path))
    assert (found.kind, found.suspects) == ("deadlock", ())
    assert (
        "Rank 0 left the order that it had repeated: it called recv at stage.py:17 where it had "
        "called send at stage.py:15 in every round before"
    ) in found.cause


def test_ranks_that_never_had_another_order_are_right_by_themselves(tmp_path: Path) -> None:
    run = Run(world=2)
    for rank in run:
        stuck(rank, rank.recv(1 - rank.rank))
    (found, *_) = errors(aligned(run, tmp_path))
    assert "Each is right by itself" in found.cause
