"""A call of an inner group that one rank alone left out, and what only looks like it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pytest

from collectrace.align.judging.circles.inner_call import LeftInner, left_inner
from tests.support.judging import of_circles
from tests.support.synthetic import Rank, Run

END = "main.py:9"
MANY = [32]


def found(run: Run, folder: Path) -> LeftInner | None:
    return of_circles(left_inner, run, folder)


def of_hosts(hosts: int) -> Run:
    """Two ranks on each host, in a group of their own, and a group of their leaders."""
    run = Run(2 * hosts)
    for host in range(hosts):
        run.group(f"host{host}", [2 * host, 2 * host + 1], site="groups.py:3")
    run.group("leaders", range(0, 2 * hosts, 2), site="groups.py:5")
    return run


def levels(
    turns: Sequence[int] = (3, 3),
    *,
    hosts: int = 2,
    short: Collection[int] = (2,),
    turns_of_one: int | None = None,
    every: int = 1,
    told: str = "",
    thread: str | None = None,
    strange: int | None = None,
    end: str = "float32",
) -> Run:
    """Each turn has a reduce on each host, an all_reduce of its leaders and a broadcast on it.

    Args:
        turns: of each round, which ends with a collective of all.
        hosts: each of two ranks.
        short: leaders who leave theirs out in the last turn.
        turns_of_one: those of the second host in the last round, if not as many.
        every: so many turns have an all_reduce of the leaders.
        told: an op by which all are told something before the last round.
        thread: in which leaders call theirs.
        strange: who calls something new in the last round.
        end: the dtype of what ends each round.

    """
    run = of_hosts(hosts)
    for rank in run:
        _levels(rank, turns, short, turns_of_one, every, told, thread, strange, end)
    return run


def _levels(
    rank: Rank,
    turns: Sequence[int],
    short: Collection[int],
    turns_of_one: int | None,
    every: int,
    told: str,
    thread: str | None,
    strange: int | None,
    end: str,
) -> None:
    lead = rank.rank // 2 * 2
    host = f"host{lead // 2}"
    for n, usual in enumerate(turns):
        count, is_last = usual, n == len(turns) - 1
        if is_last and turns_of_one is not None and host == "host1":
            count = turns_of_one
        if is_last and told:
            rank.call(told, site="main.py:3", dtype="int64", shape=[2])
        if is_last and rank.rank == strange:
            rank.call("barrier", host, site="odd.py:3")
        for turn in range(count):
            waits = is_last and turn == usual - 1 and lead not in short
            rank.call("reduce", host, site="host.py:3", root=lead, shape=MANY)
            if (
                rank.rank == lead
                and turn % every == 0
                and (waits or not is_last or turn < usual - 1)
            ):
                last = rank.call(
                    "all_reduce", "leaders", site="host.py:9", shape=MANY, thread=thread
                )
                if waits:
                    return rank.stuck_in(last)
            last = rank.call("broadcast", host, site="host.py:5", root=lead, shape=MANY)
            if waits:
                return rank.stuck_in(last)
        last = rank.call("all_reduce", site=END, dtype=end, shape=MANY)
    return rank.stuck_in(last)


def test_who_alone_left_out_what_it_had_always_called_there(tmp_path: Path) -> None:
    told = found(levels(), tmp_path)
    assert told is not None
    assert told.turn is not None
    assert (told.rank, told.others, told.due.site) == (2, (0,), "host.py:9")
    assert (told.turn.before.op, told.turn.made.op, told.turn.times) == ("reduce", "broadcast", 5)


def test_of_more_leaders(tmp_path: Path) -> None:
    told = found(levels(hosts=4, short=(4,)), tmp_path)
    assert told is not None
    assert (told.rank, told.others) == (4, (0, 2, 6))


def test_it_need_not_be_the_first_call_of_a_round_of_which_there_were_others(
    tmp_path: Path,
) -> None:
    told = found(levels((2, 4, 1)), tmp_path)
    assert told is not None
    assert told.rank == 2


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(levels(hosts=4, short=(2, 6)), id="half of them left it out"),
        pytest.param(levels((1, 2)), id="two turns are no habit"),
        pytest.param(levels((3, 3), every=2), id="not each turn had it"),
        pytest.param(levels((3,)), id="no round before"),
        pytest.param(levels((3, 3), short=(), turns_of_one=2), id="another number of turns"),
        pytest.param(levels(told="broadcast"), id="all may be told"),
        pytest.param(levels(told="all_gather_single"), id="all may tell each other"),
        pytest.param(levels(end="int64"), id="the end of a round may tell of the next"),
        pytest.param(levels(thread="other"), id="it comes from another thread"),
        pytest.param(levels(strange=0), id="who waits did something new"),
        pytest.param(levels(strange=3), id="another did something new"),
    ],
)
def test_nobody_is_known_to_have_left_it_out(run: Run, tmp_path: Path) -> None:
    assert found(run, tmp_path) is None


def hosts(
    left: Collection[int] = (2,),
    *,
    count: int = 2,
    lines: Sequence[str] = ("first.py:5", "others.py:5") * 3,
    before: Collection[int] = (),
    told: str = "",
    thread: str | None = None,
) -> Run:
    """The ranks of each host meet between two collectives of all, some of them not.

    Args:
        left: who did not come.
        count: of hosts.
        lines: from which each rank came.
        before: hosts on which they met in the round before, too.
        told: an op by which all are told something before.
        thread: in which the second host meets.

    """
    run = of_hosts(count)
    run.all("all_reduce", site=END, shape=MANY)
    for host in before:
        for rank in run.ranks[2 * host : 2 * host + 2]:
            rank.call("barrier", f"host{host}", site=lines[rank.rank])
    run.all("all_reduce", site=END, shape=MANY)
    if told:
        run.all(told, site="main.py:3", dtype="int64", shape=[2])
    for rank in run:
        host = rank.rank // 2
        if rank.rank not in left:
            made = rank.call(
                "barrier", f"host{host}", site=lines[rank.rank], thread=thread if host else None
            )
            if {2 * host, 2 * host + 1} & {*left}:
                rank.stuck_in(made)
                continue
        rank.stuck_in(rank.call("all_reduce", site=END, shape=MANY))
    return run


@pytest.mark.parametrize("left", [2, 3])
def test_who_alone_did_not_come_where_its_like_did(left: int, tmp_path: Path) -> None:
    told = found(hosts((left,)), tmp_path)
    assert told is not None
    assert told.turn is None
    assert (told.rank, told.like, told.others) == (left, left - 2, (5 - left,))
    assert told.due.site == ("first.py:5" if left == 2 else "others.py:5")


def test_of_several_groups_of_the_kind(tmp_path: Path) -> None:
    told = found(hosts((2,), count=3), tmp_path)
    assert told is not None
    assert [info.ranks for info in told.sisters] == [(0, 1), (4, 5)]


_OTHER: Sequence[Any] = [
    pytest.param(hosts((2, 4), count=3), id="on another host one did not come either"),
    pytest.param(hosts((0, 1, 2)), id="on the other host nobody came"),
    pytest.param(
        hosts(lines=("first.py:5", "others.py:5", "first.py:5", "odd.py:5")),
        id="who waits came from a line of its own",
    ),
    pytest.param(hosts(before=(1,)), id="this host met more often before"),
    pytest.param(hosts(told="broadcast"), id="all may be told"),
    pytest.param(hosts(thread="other"), id="they meet in another thread"),
]


@pytest.mark.parametrize("run", _OTHER)
def test_groups_of_the_kind_prove_nothing(run: Run, tmp_path: Path) -> None:
    assert found(run, tmp_path) is None
