"""Who takes part in a round: two ranks that disagree, where the rounds before tell who is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from collectrace.findings import Finding
from tests.support.judging import aligned, errors
from tests.support.synthetic import Rank, Run

DRAWN = [[1, 2], [2, 3], [1, 3], [1, 2]]
"""Whom rank 0 gives work in each round."""


def give(zero: Rank, worker: Rank) -> None:
    zero.send(worker.rank, site="serve.py:5")
    worker.recv(0, site="work.py:5")


def told(
    folder: Path,
    drawn: Sequence[Sequence[int]],
    last: Sequence[int],
    waits: int = 3,
    *,
    silent: Sequence[int] = (),
    world: int = 4,
    twice: bool = False,
) -> Finding:
    """Rounds of so many ranks, each with an all_reduce; in the last one rank ``waits`` for more.

    ``silent``: ranks that never come to the last one, for they wait for rank ``waits`` elsewhere.
    ``twice``: each round has an all_reduce in the middle, too, with no messages before the other.
    """
    run = Run(world=world)
    zero = run.rank(0)
    for peers in [*drawn, last]:
        for n in peers:
            give(zero, run.rank(n))
        if peers is not last:
            run.all("all_reduce", site="train.py:9")
            if twice:
                run.all("all_reduce", site="train.py:12")
    for rank in run:
        if rank.rank == waits:
            call = rank.recv(0, site="work.py:5")
        elif rank.rank in silent:
            call = rank.recv(waits, site="work.py:8")
        else:
            call = rank.call("all_reduce", site="train.py:9")
        rank.beat(60, rank.inside(call))
    return next(one for one in errors(aligned(run, folder)) if one.caused_by is None)


def test_who_waits_for_one_more_than_there_are_in_a_round(tmp_path: Path) -> None:
    found = told(tmp_path, DRAWN, [1, 2])
    assert (found.kind, found.suspects) == ("deadlock", (3,))
    assert (
        "In each of the 4 rounds before rank 0 sent 2 messages to changing ranks before all_reduce "
        "at train.py:9; in this one too, to ranks 1-2, and all of them came to it. Rank 3 alone "
        "waits for one more, in recv at work.py:5."
    ) in found.cause
    assert "Let rank 0 decide who takes part in a round and broadcast the list" in found.fix


def test_rounds_are_told_by_the_line_of_their_end(tmp_path: Path) -> None:
    found = told(tmp_path, DRAWN, [1, 2], twice=True)
    assert found.suspects == (3,)
    assert "In each of the 4 rounds before" in found.cause


def test_who_sent_one_less_than_there_are_in_a_round(tmp_path: Path) -> None:
    found = told(tmp_path, DRAWN, [2])
    assert (found.kind, found.suspects) == ("deadlock", (0,))
    assert "in this one only 1, to rank 2. Rank 3 waits for another" in found.cause
    assert "Let rank 0 go by the same list" in found.fix


@pytest.mark.parametrize(
    ("drawn", "last", "silent", "world"),
    [
        pytest.param(DRAWN[:2], [1, 2], [], 4, id="two rounds are no habit"),
        pytest.param([*DRAWN, [1]], [1, 2], [], 4, id="not always as many"),
        pytest.param([[1, 2]] * 4, [1, 2], [], 4, id="never before"),
        pytest.param([[1, 3]] * 4, [1, 2], [], 4, id="always before"),
        pytest.param(DRAWN, [1, 2, 1], [], 4, id="more than ever"),
        pytest.param(DRAWN, [1, 2], [4, 5, 6], 7, id="most have not come to its end"),
        pytest.param(DRAWN, [2, 3], [], 4, id="it has had its message"),
        pytest.param(DRAWN, [1, 2], [1], 5, id="another has not come to its end"),
    ],
)
def test_it_is_not_known(
    drawn: list[list[int]], last: list[int], silent: list[int], world: int, tmp_path: Path
) -> None:
    found = told(tmp_path, drawn, last, silent=silent, world=world)
    assert "changing ranks" not in found.cause
