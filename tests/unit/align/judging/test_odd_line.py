"""A message that one rank alone made, and what only looks like it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from collectrace.align.judging.judge import judge
from collectrace.align.judging.odd_line import OddLine, odd_line
from tests.support.judging import aligned, case_of, errors
from tests.support.stacks import Stacks
from tests.support.synthetic import Run

SCRIPT = """\
for step in range(9):
    if norm > 10:
        alert(note)
    if rank == 2:
        alert(note)
    report(note)
    take(note)
close(note)
def more():
    alert(note)
for step in range(9):
    if rank == 2:
        more()
    if norm > 10:
        more()
recv(norm, 3)
recv(part, 3)
all_reduce(norm)
all_reduce(loss)
"""
ALERT, OF_RANK, REPORT, TAKE, CLOSE = 3, 5, 6, 7, 8
MORE, MORE_OF_RANK, MORE_BY_CHOICE, GETS_NORM, GETS_PART, SUMS_NORM, SUMS_LOSS = (
    10,
    13,
    15,
    16,
    17,
    18,
    19,
)
"""Lines."""


def reports(
    folder: Path,
    *,
    source: str = SCRIPT,
    world: int = 4,
    rounds: int = 5,
    alerts: Mapping[int, int] | None = None,
    line: int = ALERT,
    caller: int | None = None,
    heard: int | None = None,
    also: int | None = None,
    told: str = "",
    own: int | None = None,
    gone: int | None = None,
    role: str = "",
    dropped: int | None = None,
) -> Run:
    """Each rank reports to rank 0 in every round, and sends a longer summary in the end.

    Args:
        folder: of the script.
        source: the script.
        world: ranks.
        rounds: of reports.
        alerts: who reports once more, and in which round.
        line: of that.
        caller: the line that led there, if it is in a function of its own.
        heard: the line by which they hear of something in each round, rank 2 alone or all.
        also: who calls from there, too: a collective of its own.
        told: an op by which all are told something in each round.
        own: of whom rank 0 takes its reports at a line of its own.
        gone: who comes to no summary, nor to the last report, which rank 0 awaits.
        role: of what reports, if it is not the user.
        dropped: who lost a call behind it all.

    """
    script = folder / "job.py"
    script.write_text(source)
    run, stacks = Run(world), Stacks()
    more: dict[str, Any] = {"role": role} if role else {}
    hub, *workers = run
    for rank in run:
        rank.group("alone", [also] if also is not None else [world - 1])
    if also is not None:
        run.rank(also).call("barrier", "alone", site=f"{script}:{line}")
    for n in range(rounds + 1):
        at, size = (CLOSE, 6) if n == rounds else (REPORT, 3)
        if told:
            run.all(told, site="plan.py:3", dtype="int64", shape=[2])
        if heard in (GETS_NORM, GETS_PART):
            run.rank(3).send(2, tag=5, shape=[64], site="part.py:3")
            run.rank(2).recv(3, tag=5, shape=[64], site=f"{script}:{heard}")
        elif heard:
            run.all("all_reduce", site=f"{script}:{heard}")
        for worker in workers:
            if ({2: 3} if alerts is None else alerts).get(worker.rank) == n:
                frames = [f"{script}:{line} more", f"{script}:{caller} <module>"]
                at_line = {"site": f"{script}:{line}"}
                place = at_line if caller is None else stacks.at(worker, *frames)
                worker.send(0, shape=[3], async_=True, **place, **more)
            if worker.rank != gone or n < rounds - 1:
                worker.send(0, shape=[size], site=f"{script}:{at}", async_=True, **more)
            take = TAKE if n < rounds else CLOSE
            hub.recv(
                worker.rank,
                shape=[size],
                site=f"{script}:{take if worker.rank != own else REPORT}",
                async_=True,
            )
    if dropped is not None:
        run.rank(dropped).call("barrier", lost=True)
    run.finish()
    return run


def found(run: Run, folder: Path) -> OddLine | None:
    case = case_of(run, folder)
    first, *_ = (one for one in judge(case) if one.kind == "p2p_mismatch")
    return odd_line(case, first)


def test_one_reported_once_more(tmp_path: Path) -> None:
    told = found(reports(tmp_path), tmp_path / "logs")
    assert told is not None
    assert (told.rank, told.hub, told.likes, told.is_extra) == (2, 0, (1, 3), True)
    assert (told.call.seq, told.call.site) == (4, f"{tmp_path}/job.py:{ALERT}")
    assert told.usual is not None
    assert told.usual.site == f"{tmp_path}/job.py:{REPORT}"


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"line": MORE, "caller": MORE_BY_CHOICE}, id="in a function"),
        pytest.param({"heard": GETS_PART}, id="of something else"),
        pytest.param({"heard": SUMS_LOSS}, id="something else is summed up"),
        pytest.param(
            {"source": SCRIPT.replace("for step in range(9):", "if rank > 0:")},
            id="all is under a condition on the rank",
        ),
    ],
)
def test_also(fields: dict[str, Any], tmp_path: Path) -> None:
    told = found(reports(tmp_path, **fields), tmp_path / "logs")
    assert told is not None
    assert (told.rank, told.call.seq) == (2, 4)


def steps_of(folder: Path, name: str) -> Path:
    """A file of lines under no condition."""
    file = folder / name
    file.write_text("step(note)\n" * 9)
    return file


def saves(folder: Path, *, from_any: bool = False) -> Run:
    """Rank 2 sends something else, from a line of its own, instead of its fourth part.

    ``from_any``: whether its parts are taken of any rank.
    """
    run, save = Run(3), steps_of(folder, "save.py")
    for n in range(4):
        for rank in (1, 2):
            is_odd, is_any = (rank, n) == (2, 3), from_any and rank == 2
            run.rank(rank).send(0, shape=[5 if is_odd else 9], site=f"{save}:{9 if is_odd else 5}")
            run.rank(0).recv(
                -1 if is_any else rank, shape=[9], site="take.py:5", took=rank if is_any else None
            )
    run.finish()
    return run


def test_the_odd_one_is_the_one_that_does_not_fit(tmp_path: Path) -> None:
    """It stands for one of its like's; and where it did as ever before, one of these is enough."""
    told = found(saves(tmp_path), tmp_path)
    assert told is not None
    assert (told.rank, told.likes, told.call.seq, told.is_extra) == (2, (1,), 4, False)


def test_of_receives_from_any_rank_nobody_is_at_the_other_end(tmp_path: Path) -> None:
    assert found(saves(tmp_path, from_any=True), tmp_path) is None


def test_it_awaited_once_more_than_its_like(tmp_path: Path) -> None:
    """The odd one takes what the hub sends to each."""
    run, take = Run(4), steps_of(tmp_path, "take.py")
    for n in range(6):
        at, size = (8, 6) if n == 5 else (6, 3)
        for rank in run.ranks[1:]:
            run.rank(0).send(rank.rank, shape=[size], site=f"deal.py:{at}", async_=True)
            if (rank.rank, n) == (2, 3):
                rank.recv(0, shape=[3], site=f"{take}:3", async_=True)
            rank.recv(0, shape=[size], site=f"{take}:{at}", async_=True)
    run.finish()
    told = found(run, tmp_path)
    assert told is not None
    assert (told.rank, told.hub, told.call.seq, told.is_extra) == (2, 0, 4, True)


def test_who_is_to_blame_and_why(tmp_path: Path) -> None:
    first = errors(aligned(reports(tmp_path), tmp_path / "logs"))[0]
    assert (first.kind, first.suspects) == ("p2p_mismatch", (2,))
    assert "no other rank ever was" in first.cause


def test_one_that_has_not_come_so_far_has_nothing_in_its_place(tmp_path: Path) -> None:
    fields: dict[str, Any] = {"alerts": {2: 4}, "gone": 1}
    told = found(reports(tmp_path, **fields), tmp_path / "logs")
    assert told is not None
    assert (told.likes, told.usual) == ((1, 3), None)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"alerts": {2: 2}}, id="it had not done as they do for long"),
        pytest.param({"alerts": {2: 2, 3: 2}}, id="two did"),
        pytest.param({"alerts": {1: 1, 2: 2}}, id="another did before"),
        pytest.param({"line": REPORT}, id="from the line of all reports"),
        pytest.param({"line": OF_RANK}, id="under a condition on the rank"),
        pytest.param({"line": MORE, "caller": MORE_OF_RANK}, id="its caller is under one"),
        pytest.param({"line": 99}, id="what is there is not known"),
        pytest.param({"heard": GETS_NORM}, id="the condition reads what came to it"),
        pytest.param({"heard": SUMS_NORM}, id="the condition reads what all summed up"),
        pytest.param({"also": 3}, id="another was at that line"),
        pytest.param({"told": "broadcast"}, id="it may have been told to"),
        pytest.param({"source": f"{SCRIPT}store.get(plan)\n"}, id="a store may have told it to"),
        pytest.param({"own": 1}, id="the hub takes those of another elsewhere"),
        pytest.param({"own": 2}, id="the hub takes those of it elsewhere"),
        pytest.param({"alerts": {2: 5}, "gone": 1}, id="another has not come there"),
        pytest.param({"role": "fsdp"}, id="not the user's own calls"),
        pytest.param({"dropped": 2}, id="its log has gaps"),
        pytest.param({"dropped": 0}, id="the log of the hub has gaps"),
        pytest.param({"dropped": 3}, id="the log of another has gaps"),
    ],
)
def test_it_is_not_proven(fields: dict[str, Any], tmp_path: Path) -> None:
    assert found(reports(tmp_path, **fields), tmp_path / "logs") is None


def test_twice(tmp_path: Path) -> None:
    """From one line that is none of its like's: it may be a plan of its own."""
    run, work = Run(4), steps_of(tmp_path, "work.py")
    for n in range(6):
        at, size = (8, 6) if n == 5 else (6, 3)
        for rank in run.ranks[1:]:
            if rank.rank == 2 and n in (2, 3):
                rank.send(0, shape=[3], site=f"{work}:{n}", async_=True)
            rank.send(0, shape=[size], site=f"{work}:{at}", async_=True)
            run.rank(0).recv(rank.rank, shape=[size], site=f"serve.py:{at}", async_=True)
    run.finish()
    assert found(run, tmp_path) is None


def test_both_ends_are_at_a_line_of_their_own(tmp_path: Path) -> None:
    """Each is odd among those that exchange with the other."""
    run, give, take = Run(3), steps_of(tmp_path, "give.py"), steps_of(tmp_path, "take.py")
    for n in range(4):
        for source in run:
            for taker in run:
                pair = source.rank, taker.rank
                is_odd = n == 3 and pair == (0, 1)
                if source is taker or (n == 3 and not is_odd):
                    continue
                at = 9 if is_odd else 5
                source.send(taker.rank, shape=[at], site=f"{give}:{at}", async_=True)
                taker.recv(
                    source.rank, shape=[4 if is_odd else 5], site=f"{take}:{at}", async_=True
                )
    run.finish()
    assert found(run, tmp_path) is None
