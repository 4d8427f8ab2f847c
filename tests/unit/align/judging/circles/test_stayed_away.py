"""A rank that stayed away from a collective of all, and what only looks like it."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest

from collectrace.align.judging.circles.stayed_away import StayedAway, stayed_away
from collectrace.align.judging.judge import judge
from collectrace.records import Call
from tests.support.judging import aligned, case_of, errors
from tests.support.synthetic import Rank, Run

LOG = "log.py:4"


def pipeline(
    replicas: int = 1,
    *,
    world: int = 3,
    away: Collection[int] = (0,),
    known: bool = False,
    hub: bool = False,
    thread: str | None = None,
) -> Run:
    """Stages hand on what they have; behind the last step they sum their losses.

    Args:
        replicas: pipelines beside each other, each in a group of its own.
        world: stages of each.
        away: stages that do not come to the sum, but go on to the next step.
        known: the sum is made in each step.
        hub: all exchange messages with the first alone, which collects from each.
        thread: of the sum.

    """
    run = Run(replicas * world)
    for n in range(replicas):
        run.group(f"pp{n}", range(n * world, (n + 1) * world), description="pp", site="main.py:3")
    for step in range(5):
        for rank in run:
            place, group = rank.rank % world, f"pp{rank.rank // world}"
            _step(rank, place, world, hub)
            if known and (step < 4 or place not in away):
                rank.call("all_reduce", group, site=LOG)
    for rank in run:
        place, group = rank.rank % world, f"pp{rank.rank // world}"
        if place in away:
            rank.stuck_in(_begin(rank, place, world, hub))
        elif known:
            last = rank.items[-1]
            assert isinstance(last, Call)
            rank.stuck_in(last)
        else:
            rank.stuck_in(rank.call("all_reduce", group, site=LOG, thread=thread))
    return run


def _step(rank: Rank, place: int, world: int, hub: bool) -> None:
    first, group = rank.rank - place, f"pp{rank.rank // world}"
    if hub:
        for other in range(first + 1, first + world) if place == 0 else ():
            rank.recv(other, site="hub.py:5", group=group)
        if place:
            rank.send(first, site="hub.py:8", group=group)
        return
    if place:
        rank.recv(rank.rank - 1, site="stage.py:5", group=group)
    if place < world - 1:
        rank.send(rank.rank + 1, site="stage.py:6", group=group)


def _begin(rank: Rank, place: int, world: int, hub: bool) -> Call:
    group = f"pp{rank.rank // world}"
    if hub:
        return rank.recv(rank.rank + 1, site="hub.py:5", group=group)
    if place == world - 1:
        return rank.recv(rank.rank - 1, site="stage.py:5", group=group)
    return rank.send(rank.rank + 1, site="stage.py:6", group=group)


def found(run: Run, folder: Path) -> StayedAway | None:
    case = case_of(run, folder)
    circles = [one for one in judge(case) if one.kind == "deadlock"]
    assert circles
    return next((told for one in circles if (told := stayed_away(case, one)) is not None), None)


def test_who_alone_did_not_come_to_what_was_new_to_all_others(tmp_path: Path) -> None:
    told = found(pipeline(), tmp_path)
    assert told is not None
    assert (told.rank, told.maker, told.others, told.apart) == (0, 1, (1, 2), (2,))


def test_it_is_told_who_came(tmp_path: Path) -> None:
    finding = errors(aligned(pipeline(world=4), tmp_path))[0]
    assert (finding.kind, finding.suspects) == ("deadlock", (0,))
    assert (
        "Ranks 1-3, all others of the group, came to all_reduce at log.py:4 for the first time, "
        "and rank 0 alone did not: it went on to send at stage.py:6."
    ) in finding.cause
    assert "Let rank 0 call the all_reduce as the others do" in finding.fix


def test_of_pipelines_beside_each_other_each_such_rank_is_a_suspect(tmp_path: Path) -> None:
    first, *others = errors(aligned(pipeline(replicas=2), tmp_path))
    assert first.suspects == (0, 3)
    assert all(one.caused_by == 0 for one in others)


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(pipeline(world=2), id="one against one"),
        pytest.param(pipeline(known=True), id="it has its place in each round"),
        pytest.param(pipeline(hub=True), id="all others exchange messages with it"),
        pytest.param(pipeline(thread="logger"), id="of another thread"),
    ],
)
def test_it_is_not_proven(run: Run, tmp_path: Path) -> None:
    assert found(run, tmp_path) is None
