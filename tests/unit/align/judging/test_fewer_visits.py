"""A line of messages to which one rank came less often in a round, and what only looks like it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from collectrace.align.judging.fewer_visits import FewerVisits, fewer_visits
from collectrace.align.judging.judge import judge
from tests.support.judging import case_of
from tests.support.synthetic import Run

END = "main.py:9"


def found(run: Run, folder: Path) -> FewerVisits | None:
    case = case_of(run, folder)
    circles = [one for one in judge(case) if one.kind == "deadlock"]
    return fewer_visits(case, circles[0]) if circles else None


def ring(sweeps: Sequence[Sequence[int]], *, told: str = "") -> Run:
    """Neighbours exchange their edges, each so often in each round; in the last some do no more.

    ``told``: an op by which all are told something before the last round.
    """
    world = len(sweeps[0])
    run = Run(world)
    for counts in sweeps[:-1]:
        for rank, count in zip(run, counts, strict=True):
            for _ in range(count):
                rank.send((rank.rank + 1) % world, site="halo.py:5")
                rank.recv((rank.rank - 1) % world, site="halo.py:5")
        run.all("all_reduce", site=END)
    if told:
        run.all(told, site="main.py:3", dtype="int64", shape=[2])
    counts = sweeps[-1]
    for rank, count in zip(run, counts, strict=True):
        left, right = counts[rank.rank - 1], counts[(rank.rank + 1) % world]
        for n in range(count):
            last = rank.send((rank.rank + 1) % world, site="halo.py:5")
            if n >= right:
                break
            last = rank.recv((rank.rank - 1) % world, site="halo.py:5")
            if n >= left:
                break
        else:
            last = rank.call("all_reduce", site=END)
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


@pytest.mark.parametrize("op", ["broadcast", "scatter", "all_gather_single"])
def test_who_may_have_been_told_to_end_them(op: str, tmp_path: Path) -> None:
    rounds = [(2, 2, 2, 2), (4, 4, 4, 4), (3, 3, 2, 3)]
    assert found(ring(rounds, told=op), tmp_path) is None


def server(
    reports: Sequence[Sequence[int]],
    *,
    asked: int | None = None,
    lines: Sequence[str] = ("work.py:5",) * 3,
) -> Run:
    """Workers report to rank 0, each so often in each round; in the last it waits for one.

    Args:
        reports: per round and worker.
        asked: how many rank 0 asks each for in the last round, if not as many as most send.
        lines: from which line each worker reports.

    """
    run = Run(4)
    hub, *workers = run
    for counts in reports[:-1]:
        for worker, count, site in zip(workers, counts, lines, strict=True):
            for _ in range(count):
                worker.send(0, site=site)
                hub.recv(worker.rank, site="serve.py:5")
        run.all("barrier", site=END)
    counts = reports[-1]
    wanted = asked if asked is not None else max(counts)
    for worker, count, site in zip(workers, counts, lines, strict=True):
        for _ in range(count):
            worker.send(0, site=site)
        worker.stuck_in(worker.call("barrier", site=END))
    short = next(n for n, count in enumerate(counts) if count < wanted)
    for worker, count in zip(workers[: short + 1], counts, strict=False):
        for _ in range(min(wanted, count + 1)):
            last = hub.recv(worker.rank, site="serve.py:5")
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
    ],
)
def test_reports_that_prove_nothing(run: Run, tmp_path: Path) -> None:
    assert found(run, tmp_path) is None
