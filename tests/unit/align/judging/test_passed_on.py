"""A rank that stumbles over what came of a message that did not fit, and one that does not."""

from __future__ import annotations

from pathlib import Path

from tests.support.judging import aligned, errors
from tests.support.synthetic import Rank, Run


def misfit(run: Run) -> None:
    """Rank 0's message to rank 1 is shorter than the buffer."""
    run.rank(0).send(1, shape=[2, 8], site="stage.py:3")
    run.rank(1).recv(0, shape=[4, 8], site="stage.py:5")


def fail(rank: Rank) -> None:
    rank.exit("exception", error="ValueError", message="4 rows, 2 labels", site="stage.py:9")


def await_in_vain(rank: Rank, peer: int) -> None:
    call = rank.send(peer, site="stage.py:6")
    rank.beat(60, rank.inside(call))


def test_the_exception_is_a_consequence_down_the_line(tmp_path: Path) -> None:
    run = Run(4)
    misfit(run)
    for source in (1, 2):
        run.rank(source).send(source + 1, shape=[4, 8], site="stage.py:6")
        run.rank(source + 1).recv(source, shape=[4, 8], site="stage.py:5")
    fail(run.rank(3))
    await_in_vain(run.rank(2), 3)
    first, second = errors(aligned(run, tmp_path))
    assert (first.kind, first.suspects, second.caused_by) == ("p2p_mismatch", (), 0)
    assert (first.code, second.code) == ("CT707", "CT901")
    assert "rank 3" in first.cause


def test_a_rank_that_was_sent_nothing_raised_for_itself(tmp_path: Path) -> None:
    run = Run(3)
    run.rank(1).send(2, site="stage.py:6")
    run.rank(2).recv(1, site="stage.py:5")
    misfit(run)
    fail(run.rank(2))
    await_in_vain(run.rank(1), 2)
    first, second = errors(aligned(run, tmp_path))
    assert (first.kind, second.caused_by) == ("p2p_mismatch", None)
    assert "rank 2" not in first.cause
    assert (second.kind, second.suspects) == ("p2p_unmatched", (2,))
    assert second.fix.startswith("Fix what raised on rank 2")
