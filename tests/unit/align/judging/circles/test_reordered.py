"""A rank that changed the order of its messages, and what only looks like it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from collectrace.align.judging.circles.reordered import Reordered, reordered
from collectrace.align.judging.judge import judge
from tests.support.judging import aligned, case_of, errors, of_circles
from tests.support.stacks import Stacks
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


def doubling(
    *,
    world: int = 4,
    distances: Sequence[int] = (1, 2),
    steps: int = 4,
    yields: Mapping[int, int] | None = None,
    lines: Mapping[int, str] | None = None,
    told: str = "",
    note: bool = False,
    ends: int | None = None,
    strange: int | None = None,
    other: int = 0,
    has_stacks: bool = True,
    thread: str | None = None,
) -> Run:
    """Each exchanges with others at growing distance, the lower first to send; then all sum up.

    Args:
        world: ranks.
        distances: of partners, in their order.
        steps: in the last of which one yields.
        yields: at which distance a rank receives first in the last step; rank 2 at the first.
        lines: of a rank.
        told: an op by which all are told something in each step.
        note: whether who sends first sends another message behind it.
        ends: who ends before the last step.
        strange: who calls something new in the last step.
        other: the tag of what who yields receives.
        has_stacks: whether the frames above the calls are known.
        thread: by which who yields receives in the end.

    """
    run, stacks = Run(world), Stacks()
    first = {2: distances[0]} if yields is None else yields

    def at(rank: Rank, line: int) -> dict[str, Any]:
        file = (lines or {}).get(rank.rank, "double.py")
        if not has_stacks:
            return {"site": f"{file}:{line}"}
        return stacks.at(rank, f"{file}:{line} swap", f"{file}:20 add")

    for n in range(steps):
        is_last = n == steps - 1
        if told:
            run.all(told, shape=[2], dtype="int64", site="plan.py:3")
        for rank in run:
            if is_last and rank.rank == strange:
                rank.stuck_in(rank.call("barrier", **at(rank, 30)))
            if is_last and rank.rank in (ends, strange):
                continue
            for distance in distances:
                peer, leads = rank.rank ^ distance, rank.rank < rank.rank ^ distance
                is_turn = is_last and first.get(rank.rank) == distance
                if is_last and stops(first, rank.rank, peer, distances):
                    issue, line = (rank.send, 5) if leads and not is_turn else (rank.recv, 6)
                    tag, of = (other, thread) if is_turn else (0, None)
                    rank.stuck_in(issue(peer, tag=tag, thread=of, **at(rank, line)))
                    break
                _exchange(rank, peer, at, note=note)
            else:
                call = rank.call("all_reduce", shape=[64], **at(rank, 9))
                if is_last:
                    rank.stuck_in(call)
    if ends is not None:
        run.rank(ends).exit()
    return run


def _exchange(rank: Rank, peer: int, at: Callable[[Rank, int], Any], *, note: bool) -> None:
    """Of one of a pair, the lower of which is the first to send. ``note``: and sends twice."""
    if rank.rank < peer:
        rank.send(peer, **at(rank, 5))
        if note:
            rank.send(peer, tag=2, shape=[64], **at(rank, 7))
        rank.recv(peer, **at(rank, 6))
    else:
        if note:
            rank.recv(peer, tag=2, shape=[64], **at(rank, 7))
        rank.recv(peer, **at(rank, 6))
        rank.send(peer, **at(rank, 5))


def stops(first: Mapping[int, int], one: int, peer: int, distances: Sequence[int]) -> bool:
    """Whether an exchange of two is not met in the last step: one of them stops there, or before.

    Who yields and its partner do.
    """
    ends: dict[int, int] = {}
    for rank, distance in first.items():
        ends |= {rank: distances.index(distance), rank ^ distance: distances.index(distance)}
    place = distances.index(one ^ peer)
    return any(ends.get(rank, place + 1) <= place for rank in (one, peer))


def test_who_received_first_where_it_had_sent_first(tmp_path: Path) -> None:
    told = found(doubling(), tmp_path)
    assert told is not None
    assert (told.rank, told.others, told.is_turn) == (2, (0, 1), True)
    assert (told.left.made.op, told.left.usual.op) == ("recv", "send")


def test_among_many_others_are_as_far_or_further(tmp_path: Path) -> None:
    told = found(doubling(world=8, distances=(1, 2, 4)), tmp_path)
    assert told is not None
    assert (told.rank, told.others) == (2, (0, 1))


def test_it_is_told_who_came_first(tmp_path: Path) -> None:
    finding = errors(aligned(doubling(), tmp_path))[0]
    assert (finding.kind, finding.suspects) == ("deadlock", (2,))
    assert "and so both receive. Ranks 0-1 have exchanged the same in this round" in finding.cause
    assert "batch_isend_irecv" in finding.fix


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(doubling(steps=3), id="two rounds are no habit"),
        pytest.param(doubling(told="broadcast"), id="it may have been told to"),
        pytest.param(
            doubling(lines={0: "other.py", 1: "other.py"}), id="the others at lines of their own"
        ),
        pytest.param(doubling(world=2, distances=(1,), yields={0: 1}), id="one against one"),
        pytest.param(doubling(ends=0), id="another has ended"),
        pytest.param(doubling(strange=0), id="another came to something new"),
        pytest.param(doubling(other=5), id="it receives something else"),
        pytest.param(doubling(note=True), id="it went past another message, too"),
        pytest.param(doubling(thread="taker"), id="of another thread"),
    ],
)
def test_of_two_nobody_is_proven(run: Run, tmp_path: Path) -> None:
    case = case_of(run, tmp_path)
    assert {reordered(case, one) for one in judge(case) if one.kind == "deadlock"} <= {None}
