"""A rank that alone of its like got nothing in a round, and what only looks like it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from collectrace.align.judging import choices
from collectrace.align.judging.circles.unserved import Unserved, unserved
from collectrace.align.judging.judge import judge
from tests.support.judging import case_of
from tests.support.synthetic import Run

WAITS = 3


def told(
    folder: Path, given: Sequence[Sequence[int]], *, world: int = 4, asks: Sequence[int] = ()
) -> Unserved | None:
    """Per round how many messages rank 0 sends to ranks 1, 2, 3; the last of them wants one more.

    ``asks``: how often each first asks rank 0 for work in the last round, which takes but as many
    questions as it answers.
    """
    run = Run(world)
    zero, workers = run.rank(0), [run.rank(n) for n in range(1, world)]
    for n, counts in enumerate(given):
        is_last = n == len(given) - 1
        for worker, count, question in zip(workers, counts, asks or [0] * world, strict=False):
            for _ in range(question if is_last else 0):
                worker.send(0, tag=1, site="work.py:3")
            for _ in range(min(count, question) if is_last else 0):
                zero.recv(worker.rank, tag=1, site="serve.py:4")
            for _ in range(count):
                zero.send(worker.rank, site="serve.py:5")
                worker.recv(0, site="work.py:5")
        if not is_last:
            run.all("all_reduce", site="train.py:9")
    for rank in run:
        if rank.rank == world - 1:
            call = rank.recv(0, site="work.py:5")
        else:
            call = rank.call("all_reduce", site="train.py:9")
        rank.beat(60, rank.inside(call))
    case = case_of(run, folder)
    return unserved(case, next(one for one in judge(case) if one.kind == "deadlock"))


@pytest.fixture(autouse=True)
def _bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in the source leads past the receive."""
    monkeypatch.setattr(choices, "of_call", lambda *_, **__: [])


def test_one_got_nothing_and_the_others_did(tmp_path: Path) -> None:
    found = told(tmp_path, [[2, 1, 2], [1, 2, 1], [1, 2, 0]])
    assert found is not None
    assert (found.hub, found.waiter, found.likes, found.rounds) == (0, WAITS, (1, 2), 2)


@pytest.mark.parametrize(
    ("given", "world"),
    [
        ([[1, 1, 1], [1, 1, 1], [1, 1, 1]], 4),
        ([[1, 1, 1], [1, 1, 0], [1, 1, 1], [1, 1, 0]], 4),
        ([[1, 1, 1], [1, 0, 1], [1, 1, 1], [1, 1, 0]], 4),
        ([[1, 1, 1], [1, 1, 1], [1, 0, 0]], 4),
        ([[1, 1, 1], [1, 1, 0]], 4),
        ([[1, 1], [1, 1], [1, 0]], 3),
    ],
    ids=[
        "it got one and wants another",
        "it had got none before",
        "another had got none before",
        "another got none, too",
        "one round before",
        "one against one",
    ],
)
def test_what_proves_nothing(given: Sequence[Sequence[int]], world: int, tmp_path: Path) -> None:
    assert told(tmp_path, given, world=world) is None


def test_a_question_that_was_not_taken(tmp_path: Path) -> None:
    """Rank 0 answers as many as it takes of any: another may have asked twice."""
    assert told(tmp_path, [[1, 1, 1], [1, 1, 1], [2, 1, 0]], asks=[2, 1, 1]) is None
    asked = told(tmp_path / "taken", [[1, 1, 1], [1, 1, 1], [1, 1, 0]], asks=[0, 0, 0])
    assert asked is not None


def test_a_way_past_the_receive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(choices, "of_call", lambda *_, **__: ["4 if number in mine:"])
    assert told(tmp_path, [[1, 1, 1], [1, 1, 1], [1, 1, 0]]) is None
