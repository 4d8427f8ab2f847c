"""One rank that alone exchanged more, or less, in a round than its like, and what only looks so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from collectrace.align.judging.circles import odd_tally as module
from collectrace.align.judging.circles.odd_tally import OddTally, odd_tally
from collectrace.align.judging.judge import judge
from tests.support.judging import case_of
from tests.support.synthetic import Rank, Run

Exchange = Callable[[Rank, int], object]
LINE, ONCE_MORE = "step.py:5", "step.py:8"


def told(
    folder: Path, rounds: Sequence[Exchange], waiter: int, *, world: int = 4, op: str = "all_reduce"
) -> OddTally | None:
    """What comes of rounds, in each of which every rank exchanges something by its number.

    The waiter's last message is the one it waits in; all others come to the collective behind.
    ``op``: of that.
    """
    run = Run(world)
    for exchange in rounds[:-1]:
        for rank in run:
            exchange(rank, world)
        run.all(op, site="train.py:9", dtype="float32")
    for rank in run:
        call = rounds[-1](rank, world)
        if rank.rank != waiter:
            call = rank.call(op, site="train.py:9", dtype="float32")
        rank.beat(60, rank.inside(call))  # type: ignore[arg-type]
    case = case_of(run, folder)
    circles = [one for one in judge(case) if one.kind == "deadlock"]
    return odd_tally(case, circles[0]) if circles else None


def nothing(rank: Rank, world: int) -> object:
    return None


def ring(rank: Rank, world: int) -> object:
    rank.send((rank.rank + 1) % world, site="ring.py:3", async_=True)
    return rank.recv((rank.rank - 1) % world, site="ring.py:4")


def ring_without(*silent: int) -> Exchange:
    """Some send nothing."""

    def exchange(rank: Rank, world: int) -> object:
        if rank.rank not in silent:
            rank.send((rank.rank + 1) % world, site="ring.py:3", async_=True)
        return rank.recv((rank.rank - 1) % world, site="ring.py:4")

    return exchange


def edges(rank: Rank, world: int, caller: str = LINE) -> object:
    sides = [one for one in (rank.rank - 1, rank.rank + 1) if 0 <= one < world]
    for side in sides:
        rank.send(side, site="halo.py:3", via=caller, async_=True)
    got = [rank.recv(side, site="halo.py:4", via=caller, async_=True) for side in sides]
    return got[0]


def once_more(rank: Rank, world: int) -> object:
    """Rank 1 makes one exchange more, before the one of them all."""
    if rank.rank == 1:
        edges(rank, world, ONCE_MORE)
    return edges(rank, world)


def served(*asks: int, of: Mapping[int, int] | None = None) -> Exchange:
    """Some ask rank 0 for something, which gives so many to each."""

    def exchange(rank: Rank, world: int) -> object:
        if rank.rank == 0:
            for other in range(1, world):
                for _ in range((of or {}).get(other, 0)):
                    rank.send(other, site="serve.py:5")
            return None
        return rank.recv(0, site="work.py:5") if rank.rank in asks else None

    return exchange


ALL = served(1, 2, 3, of={1: 1, 2: 1, 3: 1})


def test_who_alone_left_out_what_all_of_its_like_sent(tmp_path: Path) -> None:
    found = told(tmp_path, [ring, nothing, ring, nothing, ring, ring_without(2)], 3)
    assert found is not None
    assert (found.rank, found.how, found.likes, found.rounds) == (2, "left out", (0, 1, 3), 3)
    assert (found.call.op, found.call.site) == ("send", "ring.py:3")


def test_who_alone_asks_another_time(tmp_path: Path) -> None:
    found = told(tmp_path, [ALL, ALL, ALL, nothing, served(2)], 2)
    assert found is not None
    assert (found.rank, found.how, found.likes, found.peer) == (2, "again", (1, 3), 0)


def test_who_alone_made_an_exchange_more(tmp_path: Path) -> None:
    found = told(tmp_path, [edges, nothing, edges, edges, once_more], 1)
    assert found is not None
    assert (found.rank, found.how, found.likes) == (1, "met", (0, 2, 3))


def test_an_exchange_more_on_a_condition_on_the_rank(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Then another may have been meant to take part in it."""
    monkeypatch.setattr(module, "_is_by_rank", lambda *_: True)
    assert told(tmp_path, [edges, nothing, edges, edges, once_more], 1) is None


@pytest.mark.parametrize(
    ("rounds", "waiter", "world"),
    [
        ([ring, ring, ring_without(2)], 3, 4),
        ([ring, ring, ring], 3, 4),
        ([ALL, ALL, served(2)], 2, 4),
        ([ALL, ALL, ALL, served(1, 3, of={1: 1, 3: 1}), served(2)], 2, 4),
        ([ALL, ALL, ALL, served(1, 2, 3, of={1: 1, 3: 1})], 2, 4),
        ([ALL, ALL, ALL, served(2, of={1: 1, 3: 1})], 2, 4),
        ([served(1, 2, of={1: 1, 2: 1})] * 3 + [served(2)], 2, 3),
    ],
    ids=[
        "too few rounds to leave out of",
        "nobody left anything out",
        "too few rounds to ask again",
        "one had been left out before",
        "rank 0 gave the others something",
        "it gave them more than they asked for",
        "one against one",
    ],
)
def test_what_proves_nothing(
    rounds: Sequence[Exchange], waiter: int, world: int, tmp_path: Path
) -> None:
    assert told(tmp_path, rounds, waiter, world=world) is None


def test_numbers_that_may_tell_who_is_to_ask(tmp_path: Path) -> None:
    def planned(rank: Rank, world: int) -> object:
        rank.call("broadcast", dtype="int64", shape=[4], root=0, site="train.py:3")
        return ALL(rank, world)

    assert told(tmp_path, [planned, ALL, ALL, ALL, nothing, served(2)], 2) is None


def test_a_message_that_may_tell_one_to_ask(tmp_path: Path) -> None:
    """Rank 0 sends each a header first; it may have promised what it does not send."""

    def told_first(rank: Rank, world: int) -> object:
        for other in range(1, world):
            if rank.rank == 0:
                rank.send(other, tag=1, site="serve.py:3")
        if rank.rank:
            rank.recv(0, tag=1, site="work.py:3")
        return ALL(rank, world)

    assert told(tmp_path, [told_first] * 3 + [nothing, served(2)], 2) is None
