"""A line of messages to which one rank came less often in a round, and what only looks like it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from collectrace.align.judging.circles.fewer_visits import FewerVisits, fewer_visits
from collectrace.align.judging.judge import judge
from collectrace.records import Source
from tests.support.judging import case_of
from tests.support.synthetic import Run

END = "main.py:9"


def found(run: Run, folder: Path) -> FewerVisits | None:
    case = case_of(run, folder)
    circles = [one for one in judge(case) if one.kind == "deadlock"]
    return fewer_visits(case, circles[0]) if circles else None


def ring(
    sweeps: Sequence[Sequence[int]],
    *,
    told: str = "",
    at_start: str = "",
    end: str = "all_reduce",
    thread: str | None = None,
    line: str = "3 while error > 1:",
) -> Run:
    """Neighbours exchange their edges, each so often in each round; in the last some do no more.

    Args:
        sweeps: per round and rank.
        told: an op by which all are told something before the last round.
        at_start: the same before the first.
        end: the collective that ends each round.
        thread: of the last such call.
        line: what the exchange stands in.

    """
    world = len(sweeps[0])
    run = Run(world)
    if at_start:
        run.all(at_start, site="main.py:2", dtype="int64", shape=[2])
    for counts in sweeps[:-1]:
        for rank, count in zip(run, counts, strict=True):
            for _ in range(count):
                rank.send((rank.rank + 1) % world, site="halo.py:5")
                rank.recv((rank.rank - 1) % world, site="halo.py:5")
        run.all(end, site=END)
    if told:
        run.all(told, site="main.py:3", dtype="int64", shape=[2])
    counts = sweeps[-1]
    for rank, count in zip(run, counts, strict=True):
        rank.record(Source(site="halo.py:5", lines=[line, "5 swap(edge)"]))
        left, right = counts[rank.rank - 1], counts[(rank.rank + 1) % world]
        for n in range(count):
            last = rank.send((rank.rank + 1) % world, site="halo.py:5")
            if n >= right:
                break
            last = rank.recv((rank.rank - 1) % world, site="halo.py:5")
            if n >= left:
                break
        else:
            last = rank.call(end, site=END, thread=thread)
        rank.stuck_in(last)
    return run


def test_who_alone_ended_its_sweeps(tmp_path: Path) -> None:
    told = found(ring([(2, 2, 2, 2), (4, 4, 4, 4), (3, 3, 2, 3)]), tmp_path)
    assert told is not None
    assert (told.rank, told.made, told.likes, told.rounds) == (2, 2, (0, 1, 3), 2)


@pytest.mark.parametrize(
    "sweeps",
    [
        pytest.param([(2, 2, 2, 2), (4, 4, 4, 4), (3, 2, 2, 3)], id="two ended them"),
        pytest.param([(2, 2, 2, 2), (4, 4, 4, 4), (2, 2, 2, 3)], id="one went on"),
        pytest.param([(2, 2), (4, 4), (3, 2)], id="of two"),
        pytest.param([(3, 3, 2, 3)], id="in the first round"),
        pytest.param([(0, 0, 0, 0), (0, 0, 0, 0), (3, 3, 2, 3)], id="never before"),
    ],
)
def test_sweeps_of_which_nobody_alone_made_fewer(
    sweeps: Sequence[Sequence[int]], tmp_path: Path
) -> None:
    assert found(ring(sweeps), tmp_path) is None


ONE_ENDED = [(2, 2, 2, 2), (4, 4, 4, 4), (3, 3, 2, 3)]


@pytest.mark.parametrize(
    "otherwise",
    [
        pytest.param({"told": "broadcast"}, id="told by a broadcast"),
        pytest.param({"told": "scatter"}, id="told by a scatter"),
        pytest.param({"told": "all_gather_single"}, id="told by all"),
        pytest.param({"at_start": "scatter"}, id="dealt out once"),
        pytest.param({"end": "gather"}, id="who gathers does not hold the others"),
        pytest.param({"thread": "loader"}, id="another thread"),
        pytest.param({"line": "3 for n in range(rank, sweeps, 4):"}, id="a part for each rank"),
        pytest.param({"line": "3 if rank < active:"}, id="some ranks only"),
    ],
)
def test_who_may_rightly_have_ended_them(otherwise: dict[str, Any], tmp_path: Path) -> None:
    assert found(ring(ONE_ENDED, **otherwise), tmp_path) is None


@pytest.mark.parametrize("line", ["3 if rank > 0:", "3 if rank == HUB:", "3 for n in range(most):"])
def test_a_line_that_is_the_same_in_every_round(line: str, tmp_path: Path) -> None:
    assert found(ring(ONE_ENDED, line=line), tmp_path) is not None


def test_turns_that_have_another_neighbour_each(tmp_path: Path) -> None:
    """So that of no channel there are fewer messages but of one."""
    run = Run(4)
    for turns in (2, 2):
        for rank in run:
            for n in range(turns):
                rank.send(rank.rank ^ 1 << n, site="mix.py:5")
                rank.recv(rank.rank ^ 1 << n, site="mix.py:5")
        run.all("all_reduce", site=END)
    for rank in run:
        rank.send(rank.rank ^ 1, site="mix.py:5")
        last = rank.recv(rank.rank ^ 1, site="mix.py:5")
        if rank.rank != 2:
            last = rank.send(rank.rank ^ 2, site="mix.py:5")
        if rank.rank not in (0, 2):
            rank.recv(rank.rank ^ 2, site="mix.py:5")
            last = rank.call("all_reduce", site=END)
        rank.stuck_in(last if rank.rank != 2 else rank.call("all_reduce", site=END))
    told = found(run, tmp_path)
    assert told is not None
    assert (told.rank, told.made, told.likes) == (2, 1, (0, 1, 3))


def server(
    reports: Sequence[Sequence[int]],
    *,
    asked: int | None = None,
    lines: Sequence[str] = ("work.py:5",) * 3,
    announced: bool = False,
) -> Run:
    """Workers report to rank 0, each so often in each round; in the last it waits for one.

    Args:
        reports: per round and worker.
        asked: how many rank 0 asks each for in the last round, if not as many as most send.
        lines: from which line each worker reports.
        announced: each says in a message before how many there are.

    """
    run = Run(4)
    hub, *workers = run
    for counts in reports[:-1]:
        for worker, count, site in zip(workers, counts, lines, strict=True):
            for _ in range(count):
                worker.send(0, site=site, shape=[5])
                hub.recv(worker.rank, site="serve.py:5", shape=[5])
        run.all("barrier", site=END)
    counts = reports[-1]
    wanted = asked if asked is not None else max(counts)
    for worker, count, site in zip(workers, counts, lines, strict=True):
        if announced:
            worker.send(0, site="work.py:3", shape=[1])
            hub.recv(worker.rank, site="serve.py:3", shape=[1])
        for _ in range(count):
            worker.send(0, site=site, shape=[5])
        worker.stuck_in(worker.call("barrier", site=END))
    short = next(n for n, count in enumerate(counts) if count < wanted)
    for worker, count in zip(workers[: short + 1], counts, strict=False):
        for _ in range(min(wanted, count + 1)):
            last = hub.recv(worker.rank, site="serve.py:5", shape=[5])
    hub.stuck_in(last)
    return run


def test_who_alone_made_fewer_reports_than_its_like(tmp_path: Path) -> None:
    told = found(server([(1, 1, 1), (3, 3, 3), (2, 2, 1)]), tmp_path)
    assert told is not None
    assert (told.rank, told.made, told.likes, told.waiter) == (3, 1, (1, 2), 0)


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(server([(1, 1, 1), (3, 3, 2), (2, 2, 1)]), id="it had made fewer before"),
        pytest.param(server([(1, 1, 1), (3, 3, 3), (2, 1, 1)]), id="two did"),
        pytest.param(server([(1, 1, 1), (3, 3, 3), (2, 2, 1)], asked=3), id="more are asked for"),
        pytest.param(
            server([(1, 1, 1), (3, 3, 3), (2, 2, 1)], lines=("a.py:5", "a.py:5", "b.py:5")),
            id="it is of another kind",
        ),
        pytest.param(
            server([(1, 1, 1), (3, 3, 3), (2, 2, 1)], announced=True), id="it said how many"
        ),
    ],
)
def test_reports_that_prove_nothing(run: Run, tmp_path: Path) -> None:
    assert found(run, tmp_path) is None
