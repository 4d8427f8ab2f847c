"""What is asked of a run before anybody is blamed, and what it says where nothing is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.align import align
from collectrace.align.judging.case import Case
from collectrace.align.reading.evidence import StreamKey
from collectrace.findings import is_proven
from tests.support.judging import case_of
from tests.support.synthetic import Run

CALLS = 5


@pytest.fixture
def case(tmp_path: Path) -> Case:
    run = Run(2)
    for rank in run:
        for n in range(CALLS):
            rank.call("all_reduce", site=f"/job/train.py:{n + 1}")
    first = run.rank(0)
    first.done(2, failed=True, error="RuntimeError: of the collective")
    first.send(1)
    first.done(2, peer=1, tag=0, op="send", failed=True, error="RuntimeError: of the message")
    run.finish()
    return case_of(run, tmp_path)


@pytest.fixture
def stream(case: Case) -> StreamKey:
    (only,) = case.comparison.streams
    return only


def sites(case: Case, rank: int, stream: StreamKey | None, seq: int | None, most: int) -> str:
    return "".join(
        c.site[-1] if c and c.site else "-" for c in case.before(rank, stream, seq, most)
    )


def test_the_calls_before_a_row(case: Case, stream: StreamKey) -> None:
    assert sites(case, 0, stream, 4, 2) == "23"
    assert sites(case, 0, stream, 4, 3) == sites(case, 0, stream, 4, 400) == "123"
    assert sites(case, 0, stream, 1, 400) == ""


def test_of_what_is_not_known_there_are_no_calls(case: Case, stream: StreamKey) -> None:
    assert sites(case, 7, stream, 4, 2) == ""
    assert sites(case, 0, None, 4, 2) == sites(case, 0, stream, None, 2) == ""


def test_a_message_that_raised_is_no_collective_of_its_number(
    case: Case, stream: StreamKey
) -> None:
    assert [done.error for done in case.failed(0, stream)] == ["RuntimeError: of the collective"]
    assert case.failed(1, stream) == case.failed(7, stream) == case.failed(0, None) == []


def test_ranks_that_asked_for_no_group_are_told_apart_by_what_they_did(tmp_path: Path) -> None:
    run = Run(3)
    run.all("all_reduce")
    zero, one, two = run
    zero.beat(60, zero.creating(zero.group("7", [0, 1, 2], phase="asked")))
    one.exit("exception", error="ValueError", message="mine")
    two.stuck_in(two.call("broadcast"))
    run.write(tmp_path)
    finding = align(tmp_path).findings[0]
    assert finding.kind == "group_mismatch"
    assert [(side.ranks, side.state) for side in finding.sides] == [
        ((0,), "blocked"), ((1,), "raised"), ((2,), "blocked"),
    ]  # fmt: skip
    assert not is_proven(finding)  # rank 2 may still request it


def test_different_requests_of_a_group_are_proof(tmp_path: Path) -> None:
    run = Run(3)
    run.all("all_reduce")
    for rank, members in zip(run, ([0, 1], [0, 1], [0, 2]), strict=True):
        rank.beat(60, rank.creating(rank.group("7", members, phase="asked", site="/job/a.py:9")))
    run.write(tmp_path)
    finding = align(tmp_path).findings[0]
    assert finding.kind == "group_mismatch"
    assert is_proven(finding)
