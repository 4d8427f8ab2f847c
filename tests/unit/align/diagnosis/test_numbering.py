"""Ranks in a group that were passed where a message asks for global ranks."""

from __future__ import annotations

from pathlib import Path

from collectrace.records import Call
from tests.support.judging import aligned, errors
from tests.support.synthetic import Rank, Run


def stuck(rank: Rank, call: Call) -> None:
    rank.beat(60, rank.inside(call))


def two_pairs(dst: int, src: int) -> Run:
    """In each pair one gives the other a value; then all meet. The first pair did so before."""
    run = Run(world=4)
    run.group("a", [0, 1], description="pair")
    run.group("b", [2, 3], description="pair")
    run.all("barrier")
    run.rank(0).send(1, site="pair.py:8")
    run.rank(1).recv(0, site="pair.py:10")
    calls = [run.rank(2).send(dst, site="pair.py:8"), run.rank(3).recv(src, site="pair.py:10")]
    for rank in run:
        stuck(rank, calls[rank.rank - 2] if rank.rank > 1 else rank.call("barrier"))
    return run


def test_both_ends_are_to_blame_and_not_the_circle(tmp_path: Path) -> None:
    first, *others = errors(aligned(two_pairs(1, 0), tmp_path))
    assert (first.kind, first.suspects) == ("p2p_unmatched", (2, 3))
    assert (
        "Rank 2 passed dst=1 at pair.py:8, and group rank 1 in group pair (ranks 2-3) is rank 3; "
        "rank 3 passed src=0 at pair.py:10, and group rank 0 in group pair (ranks 2-3) is rank 2"
    ) in first.cause
    assert "In group pair (ranks 0-1) the two are the same" in first.cause
    assert "pass dst=dist.get_global_rank(group, 1) and src=dist.get_global_rank(" in first.fix
    assert "group_dst=1 and group_src=0" in first.fix
    assert all(found.caused_by == 0 for found in others)


def test_of_one_end_it_is_said_and_nobody_blamed(tmp_path: Path) -> None:
    first, *_ = errors(aligned(two_pairs(1, 2), tmp_path))
    assert (first.kind, first.suspects) == ("p2p_unmatched", ())
    assert "Rank 2 passed dst=1 at pair.py:8" in first.cause
    assert "src" not in first.cause + first.fix.partition("\n")[2]


def test_without_such_a_group_nothing_is_said_of_numbers(tmp_path: Path) -> None:
    for found in errors(aligned(two_pairs(0, 1), tmp_path)):
        assert "get_global_rank" not in found.fix
        assert found.suspects == ()
