"""Ranks in a group that were passed where a message asks for global ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

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


def ring(*, group: bool, shift: int = 0, among: int = 3) -> Run:
    """Two rings of three; those of the second name each other by their numbers in it.

    Args:
        group: whether each ring is a process group.
        shift: by which the receives of the second name another than who sends.
        among: how many of the second do so; the others name ranks.

    """
    run = Run(world=6)
    if group:
        run.group("a", [0, 1, 2], description="ring")
        run.group("b", [3, 4, 5], description="ring")
    run.all("barrier")
    calls: dict[int, Call] = {}
    for rank in run:
        n, first = rank.rank % 3, rank.rank // 3 * 3
        base = 0 if rank.rank - 3 < among else first
        calls[rank.rank] = rank.send(base + (n + 1) % 3, site="ring.py:8")
        rank.recv(base + (n - 1 + (shift if rank.rank > 2 else 0)) % 3, site="ring.py:9")
    for rank in run:
        stuck(rank, calls[rank.rank] if rank.rank > 2 else rank.call("barrier"))
    return run


def test_a_ring_of_such_messages_is_one_error_of_all_its_ranks(tmp_path: Path) -> None:
    first, *others = errors(aligned(ring(group=True), tmp_path))
    assert (first.kind, first.suspects) == ("p2p_unmatched", (3, 4, 5))
    assert first.headline.endswith("(and 2 more alike)")
    assert "So did rank" in first.cause
    assert "dist.get_global_rank(group, " in first.fix
    assert all(one.caused_by == 0 for one in others)


def test_ranks_that_made_no_group_may_count_themselves_as_well(tmp_path: Path) -> None:
    first, *others = errors(aligned(ring(group=False), tmp_path))
    assert (first.kind, first.suspects) == ("p2p_unmatched", (3, 4, 5))
    assert "they name each other by their numbers among ranks 3-5" in first.headline
    assert "of ranks 3-5, counted from 0, is rank" in first.cause
    assert "look the peer up by its number in the list of these, ranks 3-5" in first.fix
    assert "get_global_rank" not in first.fix
    assert all(one.caused_by == 0 for one in others)


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(ring(group=False, shift=1), id="not each message is told of so"),
        pytest.param(ring(group=False, among=2), id="one of them names ranks"),
    ],
)
def test_numbers_that_do_not_tell_of_every_message_tell_of_none(run: Run, tmp_path: Path) -> None:
    for found in errors(aligned(run, tmp_path)):
        assert found.suspects == ()
        assert "counted from 0" not in found.cause


def test_who_failed_before_it_answered_was_meant_all_the_same(tmp_path: Path) -> None:
    """Ranks 2 and 3 ask ranks 1 and 0, which raised: 3 minus one's own number is no mistake."""
    run = Run(world=4)
    run.all("barrier")
    for n in (0, 1):
        run.rank(n).exit("exception", error="FileNotFoundError", message="table", site="serve.py:4")
    for n in (2, 3):
        rank = run.rank(n)
        rank.send(3 - n, site="ask.py:5")
        stuck(rank, rank.recv(3 - n, site="ask.py:6"))
    found = errors(aligned(run, tmp_path))
    assert found
    for one in found:
        assert not {2, 3} & {*one.suspects}
        assert "counted from 0" not in one.cause + one.fix
        assert "number" not in one.headline


@pytest.mark.parametrize("group", [True, False])
def test_halves_that_exchange_with_each_other_name_ranks(group: bool, tmp_path: Path) -> None:
    """The first half leaves its part out: nothing shows that the second meant itself."""
    run = Run(world=4)
    if group:
        run.group("a", [0, 1], description="row")
        run.group("b", [2, 3], description="row")
    run.all("barrier")
    for n in (0, 1):
        stuck(run.rank(n), run.rank(n).call("barrier"))
    for n in (2, 3):
        rank = run.rank(n)
        call = rank.send(3 - n, site="swap.py:5")
        rank.recv(3 - n, site="swap.py:6")
        stuck(rank, call)
    for one in errors(aligned(run, tmp_path)):
        assert not {2, 3} & {*one.suspects}
        assert "counted from 0" not in one.cause
        assert "get_global_rank" not in one.fix


def test_ranks_that_had_met_are_no_numbers(tmp_path: Path) -> None:
    run = Run(world=6)
    run.group("a", [0, 1, 2], description="ring")
    run.group("b", [3, 4, 5], description="ring")
    for n in range(3):
        run.rank(3 + n).send((n + 1) % 3, site="swap.py:3", tag=4)
        run.rank((n + 1) % 3).recv(3 + n, site="swap.py:4", tag=4)
    for rank in run:
        n, base = rank.rank % 3, 0
        call = rank.send(base + (n + 1) % 3, site="ring.py:8")
        rank.recv(base + (n - 1) % 3, site="ring.py:9")
        stuck(rank, call if rank.rank > 2 else rank.call("barrier"))
    for one in errors(aligned(run, tmp_path)):
        assert not {3, 4, 5} & {*one.suspects}
