"""Who owed a receive from any rank its message, and who merely ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collectrace.align.judging.judge import judge
from collectrace.align.judging.owed import owed
from collectrace.ops import ANY_SOURCE
from tests.support.judging import case_of
from tests.support.synthetic import Run


def found(
    folder: Path,
    *,
    answered: bool = False,
    by_peers: bool = False,
    other: str = "waits",
    rounds: int = 3,
) -> int | None:
    """Rank 0 hands out questions and takes the answers as they come; in the end rank 2 raises.

    Args:
        folder: where the rank files go.
        answered: it had given its last answer.
        by_peers: its exception says that others let it down.
        other: what rank 1 does then: ``waits`` for a question, has ``finished``, or is ``busy``.
        rounds: before.

    """
    run = Run(3)
    hub, *workers = run
    for n in range(rounds + 1):
        for worker in workers:
            hub.send(worker.rank, site="pool.py:5")
            worker.recv(0, site="work.py:5")
            if n < rounds or worker.rank == 1 or answered:
                worker.send(0, site="work.py:9")
        for worker in workers:
            took = worker.rank if n < rounds or worker.rank == 1 or answered else None
            last = hub.recv(ANY_SOURCE, took=took, site="pool.py:9")
    if answered:
        last = hub.recv(ANY_SOURCE, site="pool.py:9")
    error = "RuntimeError" if by_peers else "ValueError"
    message = "Connection closed by peer [127.0.0.1]:1" if by_peers else "math domain error"
    workers[1].exit("exception", error=error, message=message)
    if other == "waits":
        workers[0].stuck_in(workers[0].recv(0, site="work.py:5"))
    elif other == "finished":
        workers[0].exit()
    else:
        workers[0].beat(60)
    hub.stuck_in(last)
    case = case_of(run, folder)
    return next((rank for one in judge(case) if (rank := owed(case, one)) is not None), None)


def test_who_raised_over_its_question_owed_the_answer(tmp_path: Path) -> None:
    assert found(tmp_path) == 2


@pytest.mark.parametrize(
    "otherwise",
    [
        pytest.param({"answered": True}, id="it had answered"),
        pytest.param({"by_peers": True}, id="others let it down"),
        pytest.param({"other": "finished"}, id="another ended as well"),
        pytest.param({"other": "busy"}, id="another may yet answer"),
        pytest.param({"rounds": 1}, id="no habit"),
    ],
)
def test_it_is_not_proven(otherwise: dict[str, Any], tmp_path: Path) -> None:
    assert found(tmp_path, **otherwise) is None
