"""A message that a rank left out once, and what only looks like it."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest

from collectrace.align.judging.circles.left_once import LeftOnce, left_once
from tests.support.judging import of_circles
from tests.support.synthetic import Rank, Run


def strips(
    without: Collection[int] = (4,),
    *,
    steps: int = 9,
    twice: Collection[int] = (),
    thread: str | None = None,
    note: str = "",
    rests: int | None = None,
) -> Run:
    """Three strips swap their edges step by step; at the end all sum up.

    Args:
        without: steps in which rank 1 sends nothing to rank 2.
        steps: in all.
        twice: steps in which rank 2 asks for two.
        thread: of what rank 1 sends to rank 2.
        note: what rank 1 sends rank 2 in each step before: ``number``, ``object``, or ``long`` for
            an object that is longer where nothing follows.
        rests: the step in which ranks 0 and 1 exchange nothing, as both know.

    """
    run = Run(3)
    held = steps - 1 if len(without) > 1 else None
    """The step before which rank 2 waits for a message for good."""
    for step in range(steps):
        for rank in run:
            if rank.rank < 2 or step != held:
                _step(rank, step, without, twice, thread, note, is_rest=step == rests)
    if held is not None:
        run.rank(1).items.pop()  # rank 1 waits for rank 2, before it sends to rank 0
    for rank in run:
        if rank.rank < 2 and held is None:
            rank.stuck_in(rank.call("all_reduce", site="heat.py:30"))
        else:
            call = rank.items[-1]
            assert not isinstance(call, bytes)
            rank.beat(60, rank.inside(call))  # type: ignore[arg-type]  # its last receive
    return run


def _step(
    rank: Rank,
    step: int,
    without: Collection[int],
    twice: Collection[int],
    thread: str | None,
    note: str,
    *,
    is_rest: bool,
) -> None:
    field = [16]
    if rank.rank == 0 and is_rest:
        rank.recv(1, site="heat.py:10", shape=field)
    elif rank.rank == 0:
        rank.send(1, site="heat.py:9", shape=field)
        rank.recv(1, site="heat.py:10", shape=field)
    elif rank.rank == 1:
        _note(rank.send, 2, note, is_long=step in without)
        if not is_rest:
            rank.recv(0, site="heat.py:10", shape=field)
        if step not in without:
            rank.send(2, site="heat.py:9", shape=field, thread=thread)
        rank.recv(2, site="heat.py:10", shape=field)
        rank.send(0, site="heat.py:9", shape=field)
    else:
        _note(rank.recv, 1, note, is_long=step in without)
        rank.send(1, site="heat.py:9", shape=field)
        for _ in range(2 if step in twice else 1):
            rank.recv(1, site="heat.py:10", shape=field)


def _note(issue, peer: int, note: str, *, is_long: bool) -> None:  # type: ignore[no-untyped-def]
    """What one says to the other in each step, under a tag of its own."""
    if note == "number":
        issue(peer, tag=7, site="heat.py:5", dtype="int64", shape=[1])
    elif note:
        size = 40 if note == "long" and is_long else 32
        name = "send_object_list" if issue.__name__ == "send" else "recv_object_list"
        issue(peer, tag=7, site="heat.py:5", dtype="int64", shape=[1], api=name)
        issue(peer, tag=7, site="heat.py:5", dtype="uint8", shape=[size], api=name)


def found(run: Run, folder: Path) -> LeftOnce | None:
    return of_circles(left_once, run, folder)


def test_who_made_it_each_time_before_and_since(tmp_path: Path) -> None:
    told = found(strips(), tmp_path)
    assert told is not None
    assert (told.rank, told.waiter, told.times) == (1, 2, 8)
    assert (told.due.peer, told.before.peer, told.behind.peer) == (2, 0, 2)


def test_an_object_that_says_the_same_each_time_tells_of_nothing_else(tmp_path: Path) -> None:
    told = found(strips(note="object"), tmp_path)
    assert told is not None
    assert told.rank == 1


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(strips((8,)), id="the last: there may be no more of them"),
        pytest.param(strips((), twice=(4,)), id="the other asked for one too many"),
        pytest.param(strips((2, 4), twice=()), id="twice"),
        pytest.param(strips(steps=3, without=(1,)), id="two times are no habit"),
        pytest.param(strips(thread="sender"), id="of another thread"),
        pytest.param(strips(rests=5), id="another left out one so: it may be a plan"),
        pytest.param(strips(note="number"), id="a number may have told the other"),
        pytest.param(strips(note="long"), id="an object told the other something else"),
    ],
)
def test_it_is_not_proven(run: Run, tmp_path: Path) -> None:
    assert found(run, tmp_path) is None
