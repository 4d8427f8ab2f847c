"""Runs of which no rank may be blamed: each looks like a fault of one rank, and need not be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.judging import judged
from tests.support.marks import Script
from tests.support.synthetic import Run

REPORTS = """\
def work():
    for watch in range(9):
        dist.send(count, 0)  # COUNT
        for row in rows():
            dist.send(row, 0)  # ROW
        dist.barrier()  # MEETS
"""


def said_how_many(folder: Path) -> Run:
    """Each worker says how many rows follow; rank 0 waits for one more of rank 3."""
    script, run = Script(folder, REPORTS), Run(4)
    zero, *workers = run
    for rows in (1, 3, 2):
        for worker in workers:
            worker.send(0, shape=[1], **script.at(worker, "COUNT"))
            zero.recv(worker.rank, shape=[1], site="serve.py:2")
            for n in range(rows):
                if (rows, n, worker.rank) != (2, 1, 3):
                    worker.send(0, shape=[64], **script.at(worker, "ROW"))
                call = zero.recv(worker.rank, shape=[64], site="serve.py:3")
        if rows != 2:
            zero.call("barrier", site="serve.py:4")
        for worker in workers:
            meets = worker.call("barrier", **script.at(worker, "MEETS"))
            if rows == 2:
                worker.stuck_in(meets)
    zero.stuck_in(call)
    return run


SWEEPS = """\
for epoch in range(9):
    {head}
        dist.send(edge, after)  # GIVE
        dist.recv(edge, before)  # TAKE
    dist.all_reduce(x)  # SUM
"""


def sweeps(folder: Path, head: str) -> Run:
    """Neighbours exchange edges in sweeps, of which rank 2 made one less than the others."""
    script, run = Script(folder, SWEEPS.format(head=head)), Run(4)

    def exchange(n: int, *, last: bool = False) -> None:
        for rank in run:
            if last and rank.rank == 2:
                continue
            rank.send((rank.rank + 1) % 4, async_=last, **script.at(rank, "GIVE"))
            if not last or rank.rank != 1:
                call = rank.recv((rank.rank - 1) % 4, async_=last, **script.at(rank, "TAKE"))
            if last and rank.rank == 3:
                rank.stuck_in(call)
        if last or n:
            return
        for rank in run:
            rank.call("all_reduce", **script.at(rank, "SUM"))

    for count in (2, 4):
        for n in reversed(range(count)):
            exchange(n)
    for _ in range(2):
        exchange(1)
    exchange(0, last=True)
    for rank in run.ranks[:3]:
        rank.stuck_in(rank.call("all_reduce", **script.at(rank, "SUM")))
    return run


UPLOAD = """\
def upload():
    if {condition}:
        dist.all_gather(parts, x, group=mine)  # GATHER
{otherwise}
    dist.barrier()  # MEETS
for step in range(9):
    dist.all_reduce(x)  # TOTAL
    upload()  # UPLOAD
"""


def uploads(folder: Path, condition: str, otherwise: str = "    pass") -> Run:
    """Rank 0 alone gathers in a group of two; all others are behind that."""
    text = UPLOAD.format(condition=condition, otherwise=otherwise)
    script, run = Script(folder, text), Run(4)
    run.group("dp0", [0, 2])
    for rank in run:
        rank.call("all_reduce", **script.at(rank, "TOTAL"))
    for rank in run:
        if rank.rank == 0:
            place = script.at(rank, "GATHER", "UPLOAD")
            rank.stuck_in(rank.call("all_gather", "dp0", **place))
        else:
            rank.stuck_in(rank.call("barrier", **script.at(rank, "MEETS", "UPLOAD")))
    return run


POOL = """\
def deal():
    for turn in range(99):
        for worker in workers:
            dist.send(order, worker)  # DEAL
        for worker in workers:
            dist.recv(score, worker)  # COLLECT
def work():
    while True:
        dist.recv(order, 0)  # ORDER
        if {condition}:
            break
        dist.send(score, 0)  # SCORE
    dist.all_gather(counts, count)  # END
"""


def pool(folder: Path, condition: str) -> Run:
    """Rank 0 deals out orders; rank 3 leaves, and rank 0 waits for its score."""
    script, run = Script(folder, POOL.format(condition=condition)), Run(4)
    hub, *workers = run
    for n in range(5):
        for worker in workers:
            hub.send(worker.rank, shape=[64], **script.at(hub, "DEAL"))
            worker.recv(0, shape=[64], **script.at(worker, "ORDER"))
            if (n, worker.rank) == (4, 3):
                worker.stuck_in(worker.call("all_gather", **script.at(worker, "END")))
            else:
                worker.send(0, shape=[16], **script.at(worker, "SCORE"))
        for worker in workers:
            call = hub.recv(worker.rank, shape=[16], **script.at(hub, "COLLECT"))
    hub.stuck_in(call)
    for worker in workers[:2]:
        worker.stuck_in(worker.recv(0, shape=[64], **script.at(worker, "ORDER")))
    return run


RELAY = """\
def hand():
    for part in range(9):
        dist.recv(x, 0)  # TAKE
        if not finite(layer(x)):
            continue
        dist.send(x, 2)  # GIVE
"""


def relay(folder: Path, *, has_stacks: bool) -> Run:
    """Rank 1 hands on to rank 2 what it gets, but for one; they wait for each other."""
    script, run = Script(folder, RELAY), Run(3)
    zero, one, two = run

    def at(mark: str) -> dict[str, Any]:
        place = script.at(one, mark)
        return place if has_stacks else {"site": place["site"]}

    for n in range(9):
        zero.send(1, site="load.py:5")
        one.recv(0, **at("TAKE"))
        if n != 4:
            one.send(2, **at("GIVE"))
        last = two.recv(1, site="end.py:6")
    two.stuck_in(last)
    one.stuck_in(one.recv(2, tag=9, site="word.py:3"))
    zero.stuck_in(zero.send(1, site="load.py:5"))
    return run


LOOP = """\
due = step % every == 0
for step in range(9):
    if {condition}:
        dist.barrier()  # AGREE
{otherwise}
    dist.all_reduce(x)  # SYNC
dist.barrier()  # BEHIND
"""


def loop(
    folder: Path,
    condition: str = "queue",
    *,
    otherwise: str = "    pass",
    mark: str = "AGREE",
    rounds: int = 4,
    elsewhere: bool = False,
) -> Run:
    """Rank 1 comes to a new line, and rank 0 goes on.

    ``elsewhere``: whether ranks of another group have been at that line.
    """
    script = Script(folder, LOOP.format(condition=condition, otherwise=otherwise))
    run = Run(4 if elsewhere else 2)
    groups = {0: "one", 1: "one", 2: "two", 3: "two"}
    run.group("one", [0, 1])
    if elsewhere:
        run.group("two", [2, 3])
    for rank in run:
        for _ in range(rounds):
            rank.call("all_reduce", groups[rank.rank], **script.at(rank, "SYNC"))
        at = "SYNC" if rank.rank == 0 else mark
        op = "all_reduce" if rank.rank == 0 else "barrier"
        rank.stuck_in(rank.call(op, groups[rank.rank], **script.at(rank, at)))
    return run


CHAIN = """\
for step in range(9):
    dist.all_reduce(x)  # TOTAL
    if rank in (0, 1):
        dist.all_reduce(x, group=mine)  # MINE
"""


def chain(folder: Path) -> Run:
    """At one line, rank 0 waits in a group for rank 1, which waits in another one for rank 2."""
    script, run = Script(folder, CHAIN), Run(3)
    run.group("first", [0, 1])
    run.group("second", [1, 2])
    for rank in run:
        rank.call("all_reduce", **script.at(rank, "TOTAL"))
    for rank, group in zip(run, ("first", "second", "0"), strict=True):
        mark = "TOTAL" if group == "0" else "MINE"
        rank.stuck_in(rank.call("all_reduce", group, **script.at(rank, mark)))
    return run


def suspects(run: Run, folder: Path) -> tuple[int, ...]:
    """Return the suspects of the first error of a run."""
    return judged(run, folder / "logs")[0].suspects


Make = Callable[[Path], Run]


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(said_how_many, id="it said how many messages follow"),
        pytest.param(
            lambda folder: sweeps(folder, "for n in range(rank, count, 4):"), id="a part for each"
        ),
        pytest.param(
            lambda folder: sweeps(folder, "while rank < active(n):"), id="some ranks only"
        ),
        pytest.param(lambda folder: uploads(folder, "rank == 2"), id="its rank should keep it out"),
        pytest.param(
            lambda folder: uploads(folder, "rank == 0 or batches()"), id="rank or what it held"
        ),
        pytest.param(
            lambda folder: uploads(folder, "rank == 0", "    else:\n        pass"),
            id="the others have a branch of their own",
        ),
        pytest.param(lambda folder: pool(folder, "order[0] < 0"), id="the hub told it to leave"),
        pytest.param(lambda folder: relay(folder, has_stacks=False), id="no stacks"),
        pytest.param(lambda folder: loop(folder, "step % every == 0"), id="each n-th step"),
        pytest.param(lambda folder: loop(folder, "due"), id="each n-th step, by a name"),
        pytest.param(lambda folder: loop(folder, "save.due()"), id="a method that may count"),
        pytest.param(lambda folder: loop(folder, "loss < lowest"), id="each has a best of its own"),
        pytest.param(
            lambda folder: loop(folder, otherwise="    else:\n        skip()"), id="another branch"
        ),
        pytest.param(lambda folder: loop(folder, mark="BEHIND"), id="behind the loop"),
        pytest.param(lambda folder: loop(folder, rounds=2), id="two iterations"),
        pytest.param(lambda folder: loop(folder, elsewhere=True), id="where other groups were"),
        pytest.param(chain, id="one line in groups that overlap"),
    ],
)
def test_nobody_is_blamed(make: Make, tmp_path: Path) -> None:
    assert suspects(make(tmp_path), tmp_path) == ()


@pytest.mark.parametrize(
    ("make", "rank"),
    [
        pytest.param(lambda folder: sweeps(folder, "while error > 1:"), 2, id="by its own error"),
        pytest.param(lambda folder: uploads(folder, "rank == 0"), 0, id="by its rank"),
        pytest.param(lambda folder: pool(folder, "tokens > LIMIT"), 3, id="left by itself"),
        pytest.param(lambda folder: relay(folder, has_stacks=True), 1, id="kept an answer"),
        pytest.param(loop, 1, id="a new line in the loop"),
        pytest.param(lambda folder: loop(folder, "loss < 0.1"), 1, id="against a number"),
    ],
)
def test_without_what_speaks_for_it_the_same_rank_is_blamed(
    make: Make, rank: int, tmp_path: Path
) -> None:
    assert suspects(make(tmp_path), tmp_path) == (rank,)
