"""A worker that left the loop of its like, for which the hub of them all waits; and look-alikes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collectrace.align.judging.circles.left_alone import left_alone
from collectrace.align.judging.judge import judge
from collectrace.align.judging.own_round import LeftRound
from tests.support.judging import aligned, case_of, errors
from tests.support.stacks import Stacks
from tests.support.synthetic import Rank, Run

SCRIPT = """\
def deal():
    for turn in range(99):
        for worker in workers:
            send(order, worker)
        for worker in workers:
            recv(score, worker)
def work():
    while True:
        if tokens > LIMIT:
            break
        recv(order, 0)
        send(score, 0)
    while again:
        gather(counts)
deal() if rank == 0 else work()
gather(counts)
for epoch in range(9):
    work()
    gather(counts)
send(order, 3)
tokens = 0
tokens += 1
"""
DEAL, TAKE, ODD, ORDER, SCORE, AGAIN, RUN, END, EPOCH, EPOCHS, BARE = (
    4,
    6,
    10,
    11,
    12,
    14,
    15,
    16,
    18,
    19,
    20,
)


def pool(
    folder: Path,
    *,
    world: int = 4,
    rounds: int = 4,
    script: str = SCRIPT,
    way: str = "end",
    epochs: bool = False,
    told: str = "",
    of_hub: str = "order",
    strange: int | None = None,
    scores: str = "float32",
) -> Run:
    """Rank 0 deals out tasks, one to each worker, and takes their scores; the last worker leaves.

    Args:
        folder: of the script.
        world: ranks.
        rounds: that all came through.
        script: what they run.
        way: ``end`` for the collective behind all; ``loop`` for one in another loop.
        epochs: whether a loop is around it all.
        told: an op by which rank 0 tells all something before each round.
        of_hub: what rank 0 waits for: ``order`` that who left does not take, ``bare`` for it at
            a line in no loop, or ``other`` for one of another tag.
        strange: who has come to something new.
        scores: their dtype.

    """
    file = folder / "job.py"
    file.write_text(script)
    run, stacks = Run(world), Stacks()
    hub, *workers = run
    last = run.rank(world - 1)
    outer = EPOCH if epochs else RUN

    def at(rank: Rank, line: int) -> dict[str, Any]:
        if line in (END, EPOCHS, BARE):
            return stacks.at(rank, f"{file}:{line} <module>")
        name = "deal" if rank is hub else "work"
        return stacks.at(rank, f"{file}:{line} {name}", f"{file}:{outer} <module>")

    for _ in range(rounds):
        if told:
            run.all(told, shape=[4], site="plan.py:3")
        for worker in workers:
            hub.send(worker.rank, shape=[64], **at(hub, DEAL))
            worker.recv(0, shape=[64], **at(worker, ORDER))
            worker.send(0, shape=[1], dtype=scores, **at(worker, SCORE))
        for worker in workers:
            hub.recv(worker.rank, shape=[1], dtype=scores, **at(hub, TAKE))
    if told:
        run.all(told, shape=[4], site="plan.py:3")
    for worker in workers[:-1]:
        hub.send(worker.rank, shape=[64], **at(hub, DEAL))
        worker.recv(0, shape=[64], **at(worker, ORDER))
        if worker.rank == strange:
            worker.stuck_in(worker.recv(0, tag=8, **at(worker, ODD)))
        else:
            worker.stuck_in(worker.send(0, shape=[1], dtype=scores, **at(worker, SCORE)))
    line, tag = BARE if of_hub == "bare" else DEAL, 5 if of_hub == "other" else 0
    hub.stuck_in(hub.send(last.rank, tag=tag, shape=[64], **at(hub, line)))
    line = EPOCHS if epochs else END if way == "end" else AGAIN
    gathered: dict[str, Any] = {"shape": [1], "out_shape": [[1]] * world}
    last.stuck_in(last.call("all_gather", **gathered, **at(last, line)))
    return run


def found(folder: Path, **fields: Any) -> LeftRound | None:
    case = case_of(pool(folder, **fields), folder / "logs")
    circles = [one for one in judge(case) if one.kind == "deadlock"]
    assert circles
    return next((told for one in circles if (told := left_alone(case, one)) is not None), None)


def test_a_worker_that_left_by_itself(tmp_path: Path) -> None:
    told = found(tmp_path)
    assert told is not None
    assert (told.rank, told.made.op, told.usual.op) == (3, "all_gather", "recv")


def test_who_left_is_to_blame(tmp_path: Path) -> None:
    first = errors(aligned(pool(tmp_path), tmp_path / "logs"))[0]
    assert (first.kind, first.suspects) == ("deadlock", (3,))


IF = "if tokens > LIMIT:"
TOLD = SCRIPT.replace(IF, "if order[0] < 0:")
"""Who leaves goes by what it got of the hub."""
READ = SCRIPT.replace(IF, "if full:")
ASKED = SCRIPT.replace(IF, "if tokens > limit():")
GIVEN = SCRIPT.replace("tokens += 1", "tokens = score")
BOUND = SCRIPT.replace("while True:", "while tokens:")
KEPT = SCRIPT.replace("recv(order, 0)", "recv(tokens, 0)")


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"world": 3}, id="one against one"),
        pytest.param({"rounds": 2}, id="two rounds are no habit"),
        pytest.param({"epochs": True}, id="a loop is around it all"),
        pytest.param({"of_hub": "bare"}, id="the hub is in no loop"),
        pytest.param({"of_hub": "other"}, id="the hub waits for something else"),
        pytest.param({"strange": 1}, id="another came to something new"),
        pytest.param({"script": TOLD}, id="the hub may have told it to leave"),
        pytest.param({"script": READ}, id="it has counted nothing"),
        pytest.param({"script": ASKED}, id="a function may have told it to leave"),
        pytest.param({"script": GIVEN}, id="what it has counted was given to it"),
        pytest.param({"script": BOUND}, id="the end of its loop may have been told"),
        pytest.param({"script": KEPT}, id="what it has counted it got of the hub"),
        pytest.param({"scores": "int64"}, id="it may have told the hub that it leaves"),
        pytest.param({"told": "broadcast"}, id="the hub may have told all to leave"),
    ],
)
def test_it_is_not_proven(fields: dict[str, Any], tmp_path: Path) -> None:
    assert found(tmp_path, **fields) is None
