"""A rank that stayed away from a collective of all, and what only looks like it."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from collectrace.align.judging.circles.stayed_away import StayedAway, stayed_away
from collectrace.align.judging.judge import judge
from collectrace.records import Call
from tests.support.judging import aligned, case_of, errors
from tests.support.synthetic import Rank, Run

SCRIPT = """for step in range(steps):
    if rank:
        dist.recv(x, rank - 1)
    if rank < last:
        dist.send(x, rank + 1)
    if step % 4 == 3:
        dist.all_reduce(total)
for other in others:
    dist.recv(x, other)
dist.all_reduce(total)
"""
RECV, SEND, LOG, COLLECT, LAST = 3, 5, 7, 9, 10
"""Its lines."""


def pipeline(
    folder: Path,
    replicas: int = 1,
    *,
    world: int = 3,
    away: Collection[int] = (0,),
    known: bool = False,
    hub: bool = False,
    thread: str | None = None,
    log: int = LOG,
) -> Run:
    """Stages hand on what they have; in the last step they sum their losses.

    Args:
        folder: of the script.
        replicas: pipelines beside each other, each in a group of its own.
        world: stages of each.
        away: stages that do not come to the sum, but go on to the next step.
        known: the sum is made in each step.
        hub: all exchange messages with the first alone, which collects from each.
        thread: of the sum.
        log: the line of the sum.

    """
    script = folder / "job.py"
    script.write_text(SCRIPT)
    run = Run(replicas * world)
    for n in range(replicas):
        run.group(f"pp{n}", range(n * world, (n + 1) * world), description="pp", site="main.py:3")
    for step in range(5):
        for rank in run:
            place, group = rank.rank % world, f"pp{rank.rank // world}"
            _step(rank, place, world, hub, str(script))
            if known and (step < 4 or place not in away):
                rank.call("all_reduce", group, site=f"{script}:{log}")
    for rank in run:
        place, group = rank.rank % world, f"pp{rank.rank // world}"
        if place in away:
            rank.stuck_in(_begin(rank, place, world, hub, str(script)))
        elif known:
            last = rank.items[-1]
            assert isinstance(last, Call)
            rank.stuck_in(last)
        else:
            rank.stuck_in(rank.call("all_reduce", group, site=f"{script}:{log}", thread=thread))
    return run


def _step(rank: Rank, place: int, world: int, hub: bool, script: str) -> None:
    first, group = rank.rank - place, f"pp{rank.rank // world}"
    if hub:
        for other in range(first + 1, first + world) if place == 0 else ():
            rank.recv(other, site=f"{script}:{COLLECT}", group=group)
        if place:
            rank.send(first, site=f"{script}:{SEND}", group=group)
        return
    if place:
        rank.recv(rank.rank - 1, site=f"{script}:{RECV}", group=group)
    if place < world - 1:
        rank.send(rank.rank + 1, site=f"{script}:{SEND}", group=group)


def _begin(rank: Rank, place: int, world: int, hub: bool, script: str) -> Call:
    group = f"pp{rank.rank // world}"
    if hub:
        return rank.recv(rank.rank + 1, site=f"{script}:{COLLECT}", group=group)
    if place == world - 1:
        return rank.recv(rank.rank - 1, site=f"{script}:{RECV}", group=group)
    return rank.send(rank.rank + 1, site=f"{script}:{SEND}", group=group)


def found(run: Run, folder: Path) -> StayedAway | None:
    case = case_of(run, folder)
    circles = [one for one in judge(case) if one.kind == "deadlock"]
    assert circles
    return next((told for one in circles if (told := stayed_away(case, one)) is not None), None)


def test_who_alone_did_not_come_to_what_was_new_to_all_others(tmp_path: Path) -> None:
    told = found(pipeline(tmp_path), tmp_path / "logs")
    assert told is not None
    assert (told.rank, told.maker, told.others, told.apart) == (0, 1, (1, 2), (2,))


def test_it_is_told_who_came(tmp_path: Path) -> None:
    finding = errors(aligned(pipeline(tmp_path, world=4), tmp_path / "logs"))[0]
    assert (finding.kind, finding.suspects) == ("deadlock", (0,))
    assert (
        "Ranks 1-3, all others of the group, came to all_reduce at job.py:7 for the first time, "
        "and rank 0 alone did not: it went on to send at job.py:5."
    ) in finding.cause
    assert "Let rank 0 call the all_reduce as the others do" in finding.fix


def test_of_pipelines_beside_each_other_each_such_rank_is_a_suspect(tmp_path: Path) -> None:
    first, *others = errors(aligned(pipeline(tmp_path, replicas=2), tmp_path / "logs"))
    assert first.suspects == (0, 3)
    assert all(one.caused_by == 0 for one in others)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"world": 2}, id="one against one"),
        pytest.param({"known": True}, id="it has its place in each round"),
        pytest.param({"hub": True}, id="all others exchange messages with it"),
        pytest.param({"thread": "logger"}, id="of another thread"),
        pytest.param({"log": LAST}, id="behind the loop, which the others may have left too early"),
    ],
)
def test_it_is_not_proven(fields: dict[str, Any], tmp_path: Path) -> None:
    assert found(pipeline(tmp_path, **fields), tmp_path / "logs") is None
