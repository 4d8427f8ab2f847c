"""What one rank issued: which calls, in which order, and what became of them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from collectrace.align.browsing.calls import calls_of
from collectrace.align.reading import run_reader
from collectrace.errors import CollectraceError, LogError
from tests.support.synthetic import Run


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Two ranks, a second group and a message; rank 1 calls something else at call 4."""
    run = Run(world=2)
    run.group("7", [0, 1], description="tp")
    run.all("all_reduce")
    run.all("all_gather", "7")
    run.rank(0).send(1, tag=3)
    run.rank(1).recv(0, tag=3)
    run.all("all_reduce")
    run.all("all_reduce")
    last = run.rank(0).call("broadcast", site="train.py:70")
    run.rank(1).call("barrier", site="train.py:80")
    run.rank(0).done(2)
    run.rank(0).done(3, failed=True, error="RuntimeError: no")
    run.rank(0).beat(60, run.rank(0).inside(last))
    run.write(tmp_path)
    return tmp_path


def told(logs: Path, rank: int = 0, **asked: object) -> list[tuple[str, int, str, str]]:
    calls = calls_of(logs, rank, **asked)  # type: ignore[arg-type]
    return [(row.call.op, row.call.seq, row.call.group, row.fate) for row in calls.calls]


def test_in_the_order_of_issue_over_all_groups(logs: Path) -> None:
    assert told(logs) == [
        ("all_reduce", 1, "0", "done"),
        ("all_gather", 1, "7", ""),
        ("send", 1, "0", ""),
        ("all_reduce", 2, "0", "done"),
        ("all_reduce", 3, "0", "failed"),
        ("broadcast", 4, "0", "pending"),
    ]


def test_the_last_and_how_many_there_are_before(logs: Path) -> None:
    calls = calls_of(logs, 0, last=2)
    assert [row.call.seq for row in calls.calls] == [3, 4]
    assert (calls.before, calls.after) == (4, 0)
    assert (calls.rank, calls.world_size, calls.state) == (0, 2, "blocked")


def test_around_a_call_of_the_default_group(logs: Path) -> None:
    calls = calls_of(logs, 0, around=2, last=3)
    assert [row.call.op for row in calls.calls] == ["send", "all_reduce", "all_reduce"]
    assert (calls.before, calls.after) == (2, 1)


@pytest.mark.parametrize("name", ["7", "tp"])
def test_one_group_only(logs: Path, name: str) -> None:
    assert told(logs, group=name, around=1) == [("all_gather", 1, "7", "")]


def test_the_place_of_a_finding_is_marked_on_every_rank(logs: Path) -> None:
    for rank in (0, 1):
        calls = calls_of(logs, rank)
        assert [row.call.seq for row in calls.calls if row.finding == 0] == [4]
        assert "barrier" in calls.headlines[0]


def test_walls_are_those_of_the_rank(logs: Path) -> None:
    header = run_reader.read(logs).logs[1].header
    for row in calls_of(logs, 1).calls:
        assert row.wall - header.wall == row.call.t - header.t


def test_a_log_read_in_part_tells_as_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(world=2, checkpoint=4096)
    for rank in run:
        rank.calls(3000, "all_reduce", shape=[4])
    run.finish()
    run.write(tmp_path)
    whole = calls_of(tmp_path, 1, last=2000)
    monkeypatch.setattr(run_reader, "read", partial(run_reader.read, small=0))
    part = calls_of(tmp_path, 1, last=2000)
    assert part == whole
    assert [row.call.seq for row in part.calls] == list(range(1001, 3001))
    assert [row.call.seq for row in calls_of(tmp_path, 1, around=1500, last=3).calls] == [
        1499, 1500, 1501,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("rank", "asked", "says"),
    [
        (5, {}, "rank 5 has no file in run run-1. Available: ranks 0-1."),
        (0, {"group": "pp"}, "no group 'pp'"),
        (0, {"around": 99}, "Its last one is 4."),
    ],
)
def test_what_is_not_there(logs: Path, rank: int, asked: dict[str, object], says: str) -> None:
    with pytest.raises((LogError, CollectraceError), match=says):
        calls_of(logs, rank, **asked)  # type: ignore[arg-type]


def test_several_groups_and_none_is_the_default(tmp_path: Path) -> None:
    run = Run(world=2, default_group=False)
    for name in ("a", "b"):
        run.group(name, [0, 1], description=name)
        run.all("all_reduce", name)
    run.finish()
    run.write(tmp_path)
    with pytest.raises(CollectraceError, match="Name one by --group: a, b"):
        calls_of(tmp_path, 0, around=1)
