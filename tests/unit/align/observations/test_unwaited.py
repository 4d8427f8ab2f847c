"""Asynchronous work that nobody waited for: told by line, the proven harm first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collectrace.align.alignment import align
from collectrace.findings import Finding
from collectrace.records import Call, Unwaited
from tests.support.synthetic import Rank, Run

LINE = "/job/train.py:44"


def leave(rank: Rank, call: Call, count: int = 1, *, touched: bool = False) -> None:
    """What the tracer writes of a Work that was let go, or whose tensor was written to."""
    rank.record(
        Unwaited(
            group=call.group, device=call.device, seq=call.seq, op=call.op, peer=call.peer,
            tag=call.tag, site=call.site, count=count, touched=touched or None,
        )
    )  # fmt: skip


def told(run: Run, folder: Path) -> list[Finding]:
    run.finish()
    run.write(folder)
    alignment = align(folder)
    assert alignment.status == "aligned", "never an error"
    return [finding for finding in alignment.findings if finding.kind == "unwaited_work"]


def started(run: Run, **fields: Any) -> list[Call]:
    """The same asynchronous call on every rank."""
    return [rank.call("all_reduce", async_=True, **({"site": LINE} | fields)) for rank in run]


def test_works_that_were_waited_for_are_not_told(tmp_path: Path) -> None:
    run = Run(2)
    started(run)
    assert told(run, tmp_path) == []


def test_of_several_works_of_a_line_some_were_waited_for(tmp_path: Path) -> None:
    run = Run(2)
    calls = started(run)
    started(run)
    for n in range(2):
        leave(run.rank(n), calls[n])
    (found,) = told(run, tmp_path)
    assert "never waited for 1 of 2 all_reduce calls each started at" in found.headline
    assert found.fix.endswith("keep all of them: a list, and no single variable.")


def test_a_work_that_nobody_waited_for(tmp_path: Path) -> None:
    run = Run(3)
    calls = started(run)
    for n in (0, 2):
        leave(run.rank(n), calls[n])
    (found,) = told(run, tmp_path)
    assert (found.severity, found.suspects, found.seq) == ("info", (0, 2), 1)
    assert found.headline == "ranks 0,2 never waited for 2 all_reduce calls started at train.py:44"
    assert "the old value, the new one, or part of each" in found.cause
    assert found.fix.startswith("Keep what all_reduce(..., async_op=True) returns")
    assert [side.ranks for side in found.sides] == [(0,), (2,)]
    assert [side.call and side.call.site for side in found.sides] == [LINE, LINE]


@pytest.mark.parametrize("waits", [[1], []])
def test_a_work_that_only_some_ranks_waited_for(waits: list[int], tmp_path: Path) -> None:
    run = Run(3)
    calls = started(run)
    for rank in run:
        rank.done(1)
        if rank.rank not in waits:
            leave(rank, calls[rank.rank])
    (found,) = told(run, tmp_path)
    assert found.severity == ("warning" if waits else "info")
    assert found.headline.endswith("; rank 1 waited for its") == bool(waits)
    assert ("call wait() on it on every rank" in found.fix) == bool(waits)


def test_a_work_that_another_line_waited_for(tmp_path: Path) -> None:
    """The others wait at once: they give their results to something else, as far as is known."""
    run = Run(2)
    for rank in run:
        call = rank.call("all_reduce", async_=not rank.rank or None, site=LINE)
        rank.done(1)
        if not rank.rank:
            leave(rank, call)
    (found,) = told(run, tmp_path)
    assert found.severity == "info"


@pytest.mark.parametrize(
    ("op", "guilty", "harm"),
    [("send", 0, "the other rank may receive"), ("recv", 1, "may replace what was received")],
)
def test_a_message_that_was_written_to_before_the_wait(
    op: str, guilty: int, harm: str, tmp_path: Path
) -> None:
    run = Run(2)
    for _ in range(2):
        run.rank(0).call("all_reduce")
        run.rank(1).call("all_reduce")
        sent = run.rank(0).send(1, tag=5, site=LINE, async_=True)
        received = run.rank(1).recv(0, tag=5, site=LINE, async_=True)
    leave(run.rank(guilty), (sent, received)[guilty], touched=True)
    (found,) = told(run, tmp_path)
    assert (found.severity, found.suspects, found.seq) == ("warning", (guilty,), 2)
    assert f"wrote to the tensor of an asynchronous {op} at train.py:44" in found.headline
    assert harm in found.cause
    (side,) = found.sides
    assert side.call is not None
    assert (side.call.op, side.call.seq, side.call.tag) == (op, 2, 5)


def test_calls_of_a_line_are_counted_together(tmp_path: Path) -> None:
    run = Run(1)
    for count in (3, 40):
        leave(run.rank(0), started(run)[0], count)
    (found,) = told(run, tmp_path)
    assert "never waited for 43 all_reduce calls started" in found.headline
    assert found.seq == 1


def test_lines_are_told_apart_and_proven_harm_comes_first(tmp_path: Path) -> None:
    run = Run(1)
    rank = run.rank(0)
    for site, touched in (("/job/b.py:2", False), ("/job/a.py:1", False), ("/job/c.py:3", True)):
        leave(rank, rank.call("all_reduce", async_=True, site=site), touched=touched)
    found = told(run, tmp_path)
    assert [finding.headline.partition(".py:")[2][:1] for finding in found] == ["3", "1", "2"]


@pytest.mark.parametrize("site", [None, LINE])
def test_it_is_told_of_its_group(site: str | None, tmp_path: Path) -> None:
    run = Run(2)
    run.group("1", [0, 1], description="dp")
    call = run.rank(0).call("broadcast", "1", async_=True, site=site)
    run.rank(1).call("broadcast", "1", async_=True, site=site)
    leave(run.rank(0), call)
    (found,) = told(run, tmp_path)
    assert found.group is not None
    assert found.group.description == "dp"
    assert found.headline.endswith("1 broadcast call started" + (" at train.py:44" if site else ""))
