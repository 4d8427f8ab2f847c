"""Partners that each rank works out by itself: mutual until one names another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from collectrace.findings import Finding
from tests.support.judging import aligned, errors
from tests.support.synthetic import Rank, Run

MUTUAL = [[1, 0, 3, 2], [2, 3, 0, 1], [3, 2, 1, 0], [1, 0, 3, 2]]
"""Per exchange, whom each rank names."""
ONE_ODD = [2, 0, 3, 2]
"""Rank 0 names rank 2, and not rank 1, which names it."""


def exchange(rank: Rank, peer: int) -> None:
    """Whole: the lower one sends first."""
    first, second = (rank.send, rank.recv) if rank.rank < peer else (rank.recv, rank.send)
    first(peer, site="gossip.py:34")
    second(peer, site="gossip.py:35")


def job(
    before: Sequence[Sequence[int]], last: Sequence[int], ahead: Mapping[int, int] | None = None
) -> Run:
    """Exchanges, and a last one in which those wait whose partner does not name them.

    ``ahead``: whom the others name in the one after it, in which they wait.
    """
    run = Run(len(last))
    for names in before:
        for rank in run:
            exchange(rank, names[rank.rank])
    for rank in run:
        peer = last[rank.rank]
        if last[peer] == rank.rank:
            exchange(rank, peer)
            peer = (ahead or {}).get(rank.rank, (rank.rank + 2) % 4)
        begin = rank.send if rank.rank < peer else rank.recv
        call = begin(peer, site="gossip.py:34")
        rank.beat(60, rank.inside(call))
    return run


def first(run: Run, folder: Path) -> Finding:
    return errors(aligned(run, folder))[0]


def test_the_one_without_whom_all_would_be_mutual(tmp_path: Path) -> None:
    found = first(job(MUTUAL, ONE_ODD), tmp_path)
    assert (found.code, found.suspects) == ("CT710", (0,))
    assert "In the 5th exchange" in found.cause
    assert "rank 0 names rank 2 (gossip.py:34)" in found.cause


def test_a_circle_that_comes_of_it(tmp_path: Path) -> None:
    """Ranks 2 and 3 are a further round ahead when all wait for each other."""
    run = job(MUTUAL, ONE_ODD, ahead={2: 1, 3: 0})
    found = first(run, tmp_path)
    assert (found.kind, found.code, found.suspects) == ("deadlock", "CT710", (0,))


def test_several_that_name_others_blame_nobody(tmp_path: Path) -> None:
    found = first(job(MUTUAL, [1, 2, 3, 0]), tmp_path)
    assert (found.code, found.suspects) == ("CT710", ())


@pytest.mark.parametrize(
    "before",
    [MUTUAL[:2], [MUTUAL[0]] * 5],
    ids=["too few exchanges", "the partners never changed"],
)
def test_what_is_no_habit(before: Sequence[Sequence[int]], tmp_path: Path) -> None:
    found = first(job(before, ONE_ODD), tmp_path)
    assert found.code != "CT710"


CUBE = [[1, 2, 1, 2, 1, 2], [0, 3, 0, 3, 0, 3], [3, 0, 0, 3, 0], [2, 1, 2, 1, 2]]
"""Per rank, whom it names: two neighbours in turn. Rank 2 has left out its third, with rank 3; the
last of ranks 1 and 3 never come to an end."""


def passes(exchanges: Sequence[Sequence[int]], stuck: Sequence[int]) -> Run:
    """Ranks that exchange in turn; the last of some stays open, the others come to the loss."""
    run = Run(len(exchanges))
    for rank, names in zip(run, exchanges, strict=True):
        for peer in names:
            rank.send(peer, site="gossip.py:34")
            call = rank.recv(peer, site="gossip.py:35")
        if rank.rank not in stuck:
            call = rank.call("all_reduce", site="train.py:9")
        rank.beat(60, rank.inside(call))
    return run


def test_an_exchange_left_out_of_a_pass_that_ends_in_a_collective(tmp_path: Path) -> None:
    found = first(passes(CUBE, stuck=(1, 3)), tmp_path)
    assert (found.kind, found.code, found.suspects) == ("deadlock", "CT710", (2,))
    assert found.headline == "rank 2 skipped its 3rd exchange, with rank 3"


@pytest.mark.parametrize(
    ("exchanges", "stuck"),
    [
        ([[1, 2], [0, 3, 0], [3, 3], [2, 1, 2]], (0, 1)),
        ([[1, 2, 1, 2], [0, 3, 0, 3], [3, 0, 1], [2, 1, 2]], (1, 2, 3)),
    ],
    ids=["too few behind", "not mutual with one more either"],
)
def test_what_need_not_have_been_left_out(
    exchanges: Sequence[Sequence[int]], stuck: Sequence[int], tmp_path: Path
) -> None:
    found = first(passes(exchanges, stuck), tmp_path)
    assert found.code != "CT710" or "skipped" not in found.headline


def test_a_pass_in_which_only_some_met_is_no_shift(tmp_path: Path) -> None:
    """Ranks 0 and 1 meet once more than the others, before a collective of all."""
    run = Run(4)
    for n in (0, 1):
        exchange(run.rank(n), 1 - n)
    run.all("all_reduce", site="train.py:3")
    for names in MUTUAL:
        for rank in run:
            exchange(rank, names[rank.rank])
    for rank in run:
        call = rank.recv((rank.rank - 1) % 4, site="gossip.py:35")
        rank.beat(60, rank.inside(call))
    found = first(run, tmp_path)
    assert found.suspects == ()
    assert found.code != "CT710"


def test_messages_round_a_ring_are_no_exchanges(tmp_path: Path) -> None:
    run = Run(4)
    for step in range(5):
        for rank in run:
            ahead, behind = (rank.rank + 1 + step % 2) % 4, (rank.rank - 1 - step % 2) % 4
            rank.send(ahead, site="ring.py:5")
            rank.recv(behind, site="ring.py:6")
    for rank in run:
        call = rank.recv((rank.rank - 1) % 4, site="ring.py:6")
        rank.beat(60, rank.inside(call))
    assert first(run, tmp_path).code != "CT710"


def test_messages_of_another_between_are_no_exchange(tmp_path: Path) -> None:
    """To two at a time: which of them is the partner is not known."""
    run = Run(4)
    for names, others in zip(MUTUAL, MUTUAL[1:] + MUTUAL[1:2], strict=True):
        for rank in run:
            both = names[rank.rank], others[rank.rank]
            for peer in both:
                rank.send(peer, site="gossip.py:34")
            for peer in both:
                rank.recv(peer, site="gossip.py:35")
    for rank in run:
        call = rank.send(ONE_ODD[rank.rank], site="gossip.py:34")
        rank.beat(60, rank.inside(call))
    assert first(run, tmp_path).code != "CT710"


def test_an_exchange_of_several_messages(tmp_path: Path) -> None:
    """The size first, then the tensor: two each way, from one line."""
    run = Run(4)
    for names in MUTUAL:
        for rank in run:
            peer = names[rank.rank]
            ways = (rank.send, rank.recv) if rank.rank < peer else (rank.recv, rank.send)
            for way in ways:
                way(peer)
                way(peer)
    for rank in run:
        peer = ONE_ODD[rank.rank]
        call = (rank.send if rank.rank < peer else rank.recv)(peer)
        rank.beat(60, rank.inside(call))
    found = first(run, tmp_path)
    assert (found.code, found.suspects) == ("CT710", (0,))
