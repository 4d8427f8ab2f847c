"""A message that a rank got and did not hand on, and what only looks like it."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from collectrace.align.judging.circles.handed_on import HandedOn, handed_on
from collectrace.align.judging.judge import judge
from tests.support.judging import aligned, case_of, errors, of_circles
from tests.support.stacks import Stacks
from tests.support.synthetic import Rank, Run

SCRIPT = """\
def hand():
    for part in range(9):
        recv(x, source)
        y = layer(x)
        if not finite(y):
            continue
        send(y, waiter)
    recv(x, source)
    send(y, waiter)
    recv(word, waiter)
def back():
    for part in range(9):
        recv(grad, waiter)
        send(grad, source)
"""
TAKE, GIVE, OTHER_TAKE, OTHER_GIVE, WORD, TAKE_BACK, GIVE_BACK = 3, 7, 8, 9, 10, 13, 14


def script(folder: Path, was: str = "", now: str = "") -> Path:
    """What all run; some of it replaced."""
    file = folder / "hand.py"
    file.write_text(SCRIPT.replace(was, now) if was else SCRIPT)
    return file


def relay(
    file: Path,
    dropped: Collection[int] = (4,),
    *,
    count: int = 9,
    before: str = "",
    told: str = "",
    note: bool = False,
    thread: str | None = None,
    other_send: int | None = None,
    other_take: int | None = None,
    sources: int = 1,
    ahead: int = 1,
    strange: bool = False,
    shares: bool = False,
    of_waiter: bool = False,
    has_stacks: bool = True,
) -> Run:
    """Rank 0 sends to 1, which hands each on to 2, and then waits for a word of 2.

    Args:
        file: of what rank 1 runs.
        dropped: which it does not hand on.
        count: of those that rank 0 sends, and rank 2 asks for.
        before: what rank 1 does before the first of them: ``send`` for one to rank 2, ``take`` for
            one that it gets of rank 0 at another line.
        told: an op by which rank 2 tells all something before each.
        note: whether rank 1 sends rank 2 something else before each.
        thread: by which rank 1 hands them on.
        other_send: which one rank 1 hands on at another line.
        other_take: which one rank 1 takes at another line.
        sources: from which it takes them in turn.
        ahead: for how many rank 2 asks before it waits.
        strange: whether rank 0 comes to something new in the end.
        shares: whether ranks 0 and 2 have to do with each other.
        of_waiter: whether it is rank 2 from which it takes them.
        has_stacks: whether the frames above its calls are known.

    """
    run, stacks = Run(2 + sources), Stacks()
    zero, one, two, *more = run

    def at(line: int) -> dict[str, Any]:
        site = f"{file}:{line}"
        return stacks.at(one, f"{site} hand") if has_stacks else {"site": site}

    if shares:
        zero.send(2, tag=3, site="load.py:1")
        two.recv(0, tag=3, site="end.py:1")
    if before == "send":
        one.send(2, **at(GIVE))
        two.recv(1, site="end.py:6")
    if before == "take":
        zero.send(1, site="load.py:5")
        one.recv(0, **at(OTHER_TAKE))
    for n in range(count):
        if told:
            run.all(told, root=2, shape=[4], site="plan.py:3")
        if note:
            one.send(2, tag=7, site="note.py:4")
            two.recv(1, tag=7, site="end.py:4")
        source: Rank = two if of_waiter else [zero, *more][n % sources]
        source.send(1, site="load.py:5")
        one.recv(source.rank, **at(TAKE if n != other_take else OTHER_TAKE))
        if n not in dropped:
            one.send(2, thread=thread, **at(GIVE if n != other_send else OTHER_GIVE))
        last = two.recv(1, site="end.py:6")
    for _ in range(ahead - 1):
        two.recv(1, site="end.py:6", async_=True)
    two.stuck_in(last)
    one.stuck_in(one.recv(2, tag=9, **at(WORD)))
    if strange:
        zero.stuck_in(zero.send(1, tag=4, site="load.py:9"))
    elif not of_waiter:
        zero.stuck_in(zero.send(1, site="load.py:5"))
    return run


def found(run: Run, folder: Path) -> HandedOn | None:
    return of_circles(handed_on, run, folder)


def test_who_got_one_more_than_it_handed_on(tmp_path: Path) -> None:
    told = found(relay(script(tmp_path)), tmp_path)
    assert told is not None
    assert (told.rank, told.source, told.waiter, told.times) == (1, 0, 2, 8)
    assert (told.due.peer, told.due.seq, told.behind.peer, told.behind.seq) == (2, 4, 0, 6)


def test_it_is_told_that_nobody_else_could_know(tmp_path: Path) -> None:
    finding = errors(aligned(relay(script(tmp_path)), tmp_path))[0]
    assert (finding.kind, finding.suspects) == ("deadlock", (1,))
    assert "Rank 1 got 9 messages from rank 0, and handed 8 of them on to rank 2" in finding.cause
    assert "one it kept, by what was in it" in finding.cause
    assert "for each message that it gets" in finding.fix


def test_three_times_are_a_habit(tmp_path: Path) -> None:
    told = found(relay(script(tmp_path), (2,), count=4), tmp_path)
    assert told is not None
    assert (told.rank, told.times) == (1, 3)


def stages(file: Path, *, dropped: int = 2, steps: int = 3, parts: int = 4) -> Run:
    """Four stages hand parts on down and back up; in the last step one drops a part of its own."""
    run, stacks = Run(4), Stacks()

    def at(rank: Rank, line: int) -> dict[str, Any]:
        return stacks.at(rank, f"{file}:{line} {'hand' if line < TAKE_BACK else 'back'}")

    for step in range(steps):
        for rank in run:
            is_last = step == steps - 1
            gets = parts - (is_last and rank.rank > dropped)
            for part in range(parts):
                if rank.rank > 0:
                    call = rank.recv(rank.rank - 1, shape=[16], **at(rank, TAKE))
                if part >= gets:
                    rank.stuck_in(call)
                elif rank.rank < 3 and not (is_last and rank.rank == dropped and part == 2):
                    rank.send(rank.rank + 1, shape=[16], **at(rank, GIVE))
            for _ in range(1 if is_last else parts):
                if rank.rank < 3:
                    call = rank.recv(rank.rank + 1, shape=[16], **at(rank, TAKE_BACK))
                if rank.rank > 0 and not is_last:
                    rank.send(rank.rank - 1, shape=[16], **at(rank, GIVE_BACK))
            if is_last and rank.rank <= dropped:
                rank.stuck_in(call)
    return run


def test_a_stage_that_drops_a_part(tmp_path: Path) -> None:
    told = found(stages(script(tmp_path)), tmp_path)
    assert told is not None
    assert (told.rank, told.source, told.waiter, told.times) == (2, 1, 3, 11)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"dropped": (0,)}, id="it had never handed one on before"),
        pytest.param({"dropped": (8,)}, id="it got none behind it"),
        pytest.param({"shares": True}, id="the two have to do with each other"),
        pytest.param({"has_stacks": False}, id="what led past it is not known"),
        pytest.param({"count": 3, "dropped": (1,)}, id="two times are no habit"),
        pytest.param({"dropped": (2, 5)}, id="two"),
        pytest.param({"dropped": (), "ahead": 2}, id="none"),
        pytest.param({"ahead": 3}, id="the other has asked for more than it got"),
        pytest.param({"before": "send"}, id="one that it handed on was none that it got"),
        pytest.param({"before": "take"}, id="one that it got was not to be handed on"),
        pytest.param({"other_send": 2}, id="it handed one on elsewhere"),
        pytest.param({"other_take": 2}, id="it took one elsewhere"),
        pytest.param({"sources": 2}, id="it takes them of several"),
        pytest.param({"of_waiter": True}, id="it takes them of the one that waits"),
        pytest.param({"thread": "sender"}, id="of another thread"),
        pytest.param({"strange": True}, id="the source has come to something new"),
        pytest.param({"told": "broadcast"}, id="the other may have told it to"),
        pytest.param({"note": True}, id="it sends the other more"),
    ],
)
def test_it_is_not_proven(fields: dict[str, Any], tmp_path: Path) -> None:
    case = case_of(relay(script(tmp_path), **fields), tmp_path)
    assert {handed_on(case, one) for one in judge(case) if one.kind == "deadlock"} <= {None}


@pytest.mark.parametrize(
    ("was", "now"),
    [
        pytest.param("not finite(y)", "part == 4", id="the number of it"),
        pytest.param("layer(x)", "layer(z)", id="something else"),
        pytest.param("not finite(y)", "word[0] > y[0]", id="what the other sends"),
    ],
)
def test_it_goes_by(was: str, now: str, tmp_path: Path) -> None:
    """What all may know, or nobody else."""
    assert found(relay(script(tmp_path, was, now)), tmp_path) is None


def test_what_comes_of_all_is_not_handed_on(tmp_path: Path) -> None:
    """As weights that are made by a sum: how many there are all ranks know."""
    run, stacks, file = Run(3), Stacks(), script(tmp_path)
    _, one, two = run
    for n in range(9):
        for rank in run:
            rank.call("all_reduce", shape=[64], **stacks.at(rank, f"{file}:{TAKE} hand"))
        if n != 4:
            one.send(2, **stacks.at(one, f"{file}:{GIVE} hand"))
        last = two.recv(1, site="end.py:6")
    two.stuck_in(last)
    one.stuck_in(one.recv(2, tag=9, **stacks.at(one, f"{file}:{WORD} hand")))
    assert found(run, tmp_path) is None
