"""A rank that changed the order of its messages, and what only looks like it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from collectrace.align.judging.circles.reordered import Reordered, reordered
from tests.support.judging import aligned, errors, of_circles
from tests.support.synthetic import Rank, Run


def swap(rank: Rank, peers: Sequence[int]) -> None:
    """Exchange a border with each of some, the lower rank of a pair first to speak."""
    for peer in peers:
        if rank.rank < peer:
            rank.send(peer, site="halo.py:5")
            rank.recv(peer, site="halo.py:6")
        else:
            rank.recv(peer, site="halo.py:6")
            rank.send(peer, site="halo.py:5")


USUAL: Mapping[int, Sequence[int]] = {0: (1, 2, 3), 1: (0, 2, 3), 2: (0, 1, 3), 3: (0, 1, 2)}


def halos(
    exchanges: int = 3,
    *,
    now: Mapping[int, Sequence[int]] | None = None,
    before: Mapping[int, Sequence[int]] | None = None,
    saves: bool = True,
    line: int = 5,
    thread: str | None = None,
) -> Run:
    """Exchanges of borders, each with a sum behind it, and every other one with a checkpoint.

    In the last one 0 waits in its send for 1, 1 for 2, which waits in a receive from 0.

    Args:
        exchanges: that all came through.
        now: the order of peers in the last one, of those who changed it.
        before: in the first one, of those who had another one then.
        saves: whether there are checkpoints.
        line: of the last exchange of who changed its order.
        thread: of the last message of who changed its order.

    """
    changed = {1: (2, 0, 3)} if now is None else now
    run = Run(4)
    for n in range(exchanges):
        for rank in run:
            order = (before or {}).get(rank.rank, USUAL[rank.rank]) if not n else USUAL[rank.rank]
            swap(rank, order)
            rank.call("all_reduce", site="halo.py:9")
            if saves and n % 2:
                rank.call("barrier", site="save.py:3")
    for rank in run:
        order = changed.get(rank.rank, USUAL[rank.rank])
        at = line if rank.rank in changed else 5
        peer = order[0]
        speaks = rank.rank < peer
        name = f"halo.py:{at if speaks else at + 1}"
        of = thread if rank.rank in changed else None
        issue = rank.send if speaks else rank.recv
        rank.stuck_in(issue(peer, site=name, thread=of))
    return run


def found(run: Run, folder: Path) -> Reordered | None:
    return of_circles(reordered, run, folder)


def test_who_changed_its_order_alone(tmp_path: Path) -> None:
    told = found(halos(), tmp_path)
    assert told is not None
    assert (told.rank, told.others, told.left.rounds) == (1, (0, 2), 3)
    assert (told.left.made.peer, told.left.usual.peer) == (2, 0)


def test_it_is_told_which_message_came_first(tmp_path: Path) -> None:
    finding = errors(aligned(halos(), tmp_path))[0]
    assert (finding.kind, finding.suspects) == ("deadlock", (1,))
    assert (
        "In each of the 3 exchanges of messages before, rank 1 had come to recv at halo.py:6 (from "
        "rank 0) where it came to send at halo.py:5 (to rank 2) this time, which used to follow "
        "later; ranks 0,2 kept the order of the exchanges before."
    ) in finding.cause
    assert "Let rank 1 go through its peers in one order every time" in finding.fix


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(halos(2), id="two exchanges are no habit"),
        pytest.param(halos(before={1: (2, 0, 3)}), id="it had another order before"),
        pytest.param(halos(before={2: (1, 0, 3)}), id="another had another order before"),
        pytest.param(halos(line=15), id="a line that is none of the exchange's"),
        pytest.param(halos(thread="sender"), id="of another thread"),
    ],
)
def test_it_is_not_proven(run: Run, tmp_path: Path) -> None:
    assert found(run, tmp_path) is None


def test_of_all_that_changed_their_order_nobody_is_blamed(tmp_path: Path) -> None:
    """Each waits for its right neighbour, as no one of them had: a new scheme, and a wrong one."""
    run = halos(now={0: (1, 2, 3), 1: (2, 0, 3), 2: (3, 0, 1), 3: (0, 1, 2)})
    assert found(run, tmp_path) is None
