"""Who left out a call that was due, or made one too many, and what only looks like it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.support.judging import blamed
from tests.support.marks import Script
from tests.support.synthetic import Run

# -- how often each came to a place ----------------------------------------------------------------

REPORTS = """\
def work():
    for watch in range(9):
        dist.recv(wanted, 0)  # ORDER
        for row in rows():
            dist.send(row, 0)  # ROW
        if {condition}:
            dist.send(found, 0)  # REPORT
        dist.barrier()  # MEETS
"""


def reports(
    folder: Path,
    last: Mapping[int, int],
    *,
    once: int | None = None,
    rounds: int = 3,
    condition: str = "found.any()",
    orders: bool = False,
) -> Run:
    """Workers send rank 0 rows, and a report in each round; in the last one it lacks one.

    Args:
        folder: of the script.
        last: reports of each worker in the last round.
        once: who made none in the first round.
        rounds: before the last.
        condition: by which a report is made.
        orders: whether rank 0 first tells each worker something.

    """
    script, run = Script(folder, REPORTS.format(condition=condition)), Run(1 + len(last))
    zero, *workers = run

    def rows(n: int) -> None:
        for worker in workers:
            if orders:
                zero.send(worker.rank, shape=[64], site="serve.py:1")
                worker.recv(0, shape=[64], **script.at(worker, "ORDER"))
            for _ in range(1 + (n + worker.rank) % 2):
                worker.send(0, shape=[64], **script.at(worker, "ROW"))
                zero.recv(worker.rank, shape=[64], site="serve.py:2")

    for n in range(rounds):
        rows(n)
        for worker in (one for one in workers if n or one.rank != once):
            worker.send(0, tag=1, shape=[64], **script.at(worker, "REPORT"))
            zero.recv(worker.rank, tag=1, shape=[64], site="serve.py:3")
        zero.call("barrier", site="serve.py:4")
        for worker in workers:
            worker.call("barrier", **script.at(worker, "MEETS"))
    rows(rounds)
    for worker in workers:
        for _ in range(last[worker.rank]):
            worker.send(0, tag=1, shape=[64], **script.at(worker, "REPORT"))
        worker.stuck_in(worker.call("barrier", **script.at(worker, "MEETS")))
    lacks = min(rank for rank, made in last.items() if not made)
    for rank in range(1, lacks + 1):
        call = zero.recv(rank, tag=1, shape=[64], site="serve.py:3")
    zero.stuck_in(call)
    return run


def test_who_alone_left_out_what_its_like_made(tmp_path: Path) -> None:
    run = reports(tmp_path, {1: 1, 2: 0, 3: 1})
    assert blamed(run, tmp_path) == ((2,), {"odd_in_round"})


@pytest.mark.parametrize(
    ("last", "fields"),
    [
        pytest.param({1: 1, 2: 0}, {}, id="one against one"),
        pytest.param({1: 1, 2: 0, 3: 0}, {}, id="two left it out"),
        pytest.param({1: 1, 2: 0, 3: 1}, {"rounds": 1}, id="one round"),
        pytest.param({1: 1, 2: 0, 3: 1}, {"once": 2}, id="as once before"),
        pytest.param(
            {1: 1, 2: 0, 3: 1}, {"condition": "wanted[0]", "orders": True}, id="by an order"
        ),
        pytest.param(
            {1: 1, 2: 0, 3: 1}, {"condition": "watch in (0, 1, 2)"}, id="by constants alone"
        ),
    ],
)
def test_who_may_rightly_have_left_it_out(
    last: Mapping[int, int], fields: dict[str, object], tmp_path: Path
) -> None:
    assert blamed(reports(tmp_path, last, **fields), tmp_path)[0] == ()  # type: ignore[arg-type]


# -- one that serves several -----------------------------------------------------------------------

DRAWN = [[1, 2], [2, 3], [1, 3], [1, 2]]


def served(drawn: Sequence[Sequence[int]], last: Sequence[int], waits: int = 3) -> Run:
    """Rank 0 gives work to some ranks in each round; in the last one rank ``waits`` lacks it."""
    run = Run(world=4)
    zero = run.rank(0)
    for peers in [*drawn, last]:
        for n in peers:
            zero.send(n, site="serve.py:5")
            run.rank(n).recv(0, site="work.py:5")
        if peers is not last:
            run.all("all_reduce", site="train.py:9")
    for rank in run:
        is_waiting = rank.rank == waits
        rank.stuck_in(
            rank.recv(0, site="work.py:5")
            if is_waiting
            else rank.call("all_reduce", site="train.py:9")
        )
    return run


@pytest.mark.parametrize(
    ("drawn", "last", "suspects"),
    [
        pytest.param(DRAWN, [1, 2], (3,), id="one too many waits"),
        pytest.param(DRAWN, [2], (0,), id="one was forgotten"),
        pytest.param(DRAWN[:2], [1, 2], (), id="two rounds"),
        pytest.param([*DRAWN, [1]], [1, 2], (), id="not always as many"),
        pytest.param([[1, 2]] * 4, [1, 2], (), id="it never took part"),
        pytest.param(DRAWN, [2, 3], (), id="it has had its message"),
    ],
)
def test_who_takes_part_in_a_round(
    drawn: list[list[int]], last: list[int], suspects: tuple[int, ...], tmp_path: Path
) -> None:
    found, facts = blamed(served(drawn, last), tmp_path)
    assert found == suspects
    assert ("hub_serves_as_many" in facts) is bool(suspects)


HANDS_OUT = """\
for n in range(9):
    if rank > 0:
        {condition}
            dist.recv(x, 0)  # PULL
    dist.all_reduce(x)  # MEETS
"""


@pytest.mark.parametrize(("condition", "suspects"), [("if True:", (0,)), ("if mine(n):", ())])
def test_who_passed_over_one(condition: str, suspects: tuple[int, ...], tmp_path: Path) -> None:
    """If nothing leads the one elsewhere, it is not the one to blame."""
    script, run = Script(tmp_path, HANDS_OUT.format(condition=condition)), Run(4)
    zero, *workers = run
    for n in range(4):
        for worker in workers:
            if (n, worker.rank) != (3, 2):
                zero.send(worker.rank, site="serve.py:5")
            call = worker.recv(0, **script.at(worker, "PULL"))
            if (n, worker.rank) == (3, 2):
                worker.stuck_in(call)
        for rank in run:
            if (n, rank.rank) != (3, 2):
                place = script.at(rank, "MEETS")
                call = rank.call("all_reduce", **place)
                if n == 3:
                    rank.stuck_in(call)
    assert blamed(run, tmp_path)[0] == suspects


# -- what always followed --------------------------------------------------------------------------

RELAY = """\
def relay():
    for part in range(99):
        dist.recv(x, 0)  # TAKE
        if {condition}:
            continue
        dist.send(x, 2)  # GIVE
"""


def relay(
    folder: Path, condition: str = "not x.isfinite()", *, dropped: Sequence[int] = (3,), of: int = 0
) -> Run:
    """Rank 1 gets parts and hands each on to rank 2, but for some; the two wait for each other.

    ``of``: of whom it gets them.
    """
    script, run = Script(folder, RELAY.format(condition=condition)), Run(3)
    source, one, two = run.rank(of), run.rank(1), run.rank(2)
    for n in range(6):
        source.send(1, shape=[64], site="load.py:1")
        one.recv(of, shape=[64], **script.at(one, "TAKE"))
        if n not in dropped:
            one.send(2, shape=[64], **script.at(one, "GIVE"))
            two.recv(1, shape=[64], site="use.py:2")
    if of == 0:
        source.stuck_in(source.send(1, shape=[64], site="load.py:1"))
    one.stuck_in(one.recv(2, tag=7, site="job.py:99"))
    two.stuck_in(two.recv(1, shape=[64], site="use.py:2"))
    return run


def test_who_kept_back_an_answer_by_what_it_got(tmp_path: Path) -> None:
    assert blamed(relay(tmp_path), tmp_path) == ((1,), {"kept_an_answer"})


@pytest.mark.parametrize(
    ("condition", "fields"),
    [
        pytest.param("not x.isfinite()", {"dropped": (2, 3)}, id="two of them"),
        pytest.param("x[0] < 0", {"of": 2}, id="it had been told by the one that waits"),
        pytest.param("part in (3, 7)", {}, id="by constants alone"),
    ],
)
def test_an_answer_that_may_rightly_be_missing(
    condition: str, fields: dict[str, object], tmp_path: Path
) -> None:
    assert blamed(relay(tmp_path, condition, **fields), tmp_path)[0] == ()  # type: ignore[arg-type]


# -- by an exception -------------------------------------------------------------------------------

FEED = """\
def feed():
    for n in range(9):
        try:
            record = read(n)
        except ValueError:
            continue
        dist.send(record, 1)  # GIVE
    dist.barrier()  # MEETS
def learn():
    for n in range(9):
        {condition}
            dist.recv(record, 0)  # TAKE
    dist.barrier()  # CLOSES
"""


@pytest.mark.parametrize(("condition", "suspects"), [("if True:", (0,)), ("if expected(n):", ())])
def test_who_left_out_a_message_by_an_exception(
    condition: str, suspects: tuple[int, ...], tmp_path: Path
) -> None:
    """Of two ranks the one, if the other has no choice."""
    script, run = Script(tmp_path, FEED.format(condition=condition)), Run(2)
    zero, one = run
    for n in range(5):
        for part in range(2):
            if (n, part) != (4, 1):
                zero.send(1, **script.at(zero, "GIVE"))
                one.recv(0, **script.at(one, "TAKE"))
        if n < 4:
            zero.call("barrier", **script.at(zero, "MEETS"))
            one.call("barrier", **script.at(one, "CLOSES"))
    zero.stuck_in(zero.call("barrier", **script.at(zero, "MEETS")))
    one.stuck_in(one.recv(0, **script.at(one, "TAKE")))
    assert blamed(run, tmp_path)[0] == suspects
