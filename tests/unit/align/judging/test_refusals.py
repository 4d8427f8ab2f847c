"""Calls that a rank was refused: what follows from them, and what does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.align.alignment import align
from collectrace.findings import Alignment, Finding
from tests.support.judging import aligned, case_of, errors
from tests.support.kind_examples import crash, steps
from tests.support.synthetic import Rank, Run

ERROR = "RuntimeError: ProcessGroupGloo::allgather: invalid tensor size at index 0"
GATHER = {"op": "all_gather_single", "site": "/job/eval.py:7"}


def refused(rank: Rank, **call: str) -> None:
    rank.refused(**({"error": ERROR} | GATHER | call))


def waits(rank: Rank, **call: str) -> None:
    made = rank.call(**(GATHER | call))  # type: ignore[arg-type]
    rank.beat(90, rank.inside(made))


def root(alignment: Alignment) -> Finding:
    assert alignment.status in ("hung", "diverged")
    return alignment.findings[0]


def test_the_log_keeps_its_line_but_not_its_place(tmp_path: Path) -> None:
    run = steps(2)
    refused(run.rank(1))
    refused(run.rank(1))
    for rank in run:
        rank.call("barrier", site="/job/end.py:1")
    run.finish()
    case = case_of(run, tmp_path)
    log = case.evidence.logs[1]
    assert case.evidence.damaged_lines == 0
    stream = next(iter(log.last_seq))
    last = log.last_seq[stream]
    assert [(r.seq, r.error, r.call and r.call.op) for r in log.refused] == [
        (last, ERROR, "all_gather_single")
    ] * 2
    assert [c and c.op for c in log.calls(stream, last, last + 1)] == ["barrier"]
    assert log.last_call is not None
    assert log.last_call.op == "barrier"
    assert align(tmp_path).status == "aligned"


def test_a_log_that_is_read_in_part_tells_the_same(tmp_path: Path) -> None:
    from collectrace.align.reading import run_reader

    run = Run(2, checkpoint=2000)
    for n in range(400):
        for rank in run:
            if n == 200 and rank.rank:
                refused(rank)
            rank.call("all_reduce", site="/job/train.py:1")
    run.finish()
    run.write(tmp_path)
    evidence = run_reader.read(tmp_path, small=0, page=1000)
    for log in evidence.logs.values():
        stream = next(iter(log.last_seq))
        assert [c and c.seq for c in log.calls(stream, 1, 401)] == list(range(1, 401))
        assert {c and c.op for c in log.calls(stream, 1, 401)} == {"all_reduce"}
    assert evidence.damaged_lines == 0


def test_swallowed_and_the_next_call_is_another(tmp_path: Path) -> None:
    run = steps(3)
    for rank in run:
        if rank.rank == 2:
            refused(rank)
            rank.beat(90, rank.inside(rank.call("barrier", site="/job/end.py:1")))
        else:
            waits(rank)
    found = root(aligned(run, tmp_path))
    assert (found.kind, found.code, found.suspects) == ("op_mismatch", "CT306", (2,))
    assert "invalid tensor size" in found.cause
    assert "1 call behind" in found.cause


def loop(rank: Rank, times: int) -> None:
    for _ in range(times):
        rank.call("all_reduce", site="/job/train.py:3")


@pytest.mark.parametrize("times", [1, 3])
def test_swallowed_in_a_loop_of_equal_calls(times: int, tmp_path: Path) -> None:
    """Nothing differs before the end: there the rank is as many calls short."""
    run = Run(2)
    loop(run.rank(0), 40)
    loop(run.rank(1), 30)
    for _ in range(times):
        refused(run.rank(1), op="all_reduce", site="/job/train.py:3")
    loop(run.rank(1), 10 - times)
    run.rank(0).beat(90, run.rank(0).inside(run.rank(0).call("barrier", site="/job/end.py:1")))
    run.rank(1).call("barrier", site="/job/end.py:1")
    run.rank(1).exit()
    found = root(aligned(run, tmp_path))
    assert (found.code, found.suspects) == ("CT306", (1,))
    assert found.cause.startswith("At call 31, rank 1 raised")


def test_it_goes_on_to_another_group(tmp_path: Path) -> None:
    """The ranks wait in a circle, and one of them was refused the call that the other is in."""
    run = steps(2)
    run.group("1", [0, 1], description="tp")
    refused(run.rank(1))
    waits(run.rank(1), op="all_reduce", group="1", site="/job/tp.py:1")
    waits(run.rank(0))
    found = root(aligned(run, tmp_path))
    assert (found.kind, found.code, found.suspects) == ("deadlock", "CT306", (1,))


def test_it_ends_the_rank(tmp_path: Path) -> None:
    run = steps(3)
    for rank in run:
        if rank.rank == 2:
            refused(rank)
            crash(rank, "RuntimeError", ERROR, "/job/eval.py:7")
        else:
            waits(rank)
    found = root(aligned(run, tmp_path))
    assert (found.kind, found.code, found.suspects) == ("missing_call", "CT306", (2,))


# -- look-alikes -----------------------------------------------------------------------------


def test_refused_on_all_ranks_alike(tmp_path: Path) -> None:
    run = steps(2)
    for rank in run:
        refused(rank)
        rank.call("barrier", site="/job/end.py:1")
    run.rank(0).beat(90, run.rank(0).inside(run.rank(0).call("barrier", site="/job/end.py:2")))
    run.rank(1).exit()
    found = root(aligned(run, tmp_path))
    assert found.suspects == ()
    assert found.code != "CT306"


def test_refused_at_the_very_end(tmp_path: Path) -> None:
    run = steps(2)
    refused(run.rank(1))
    run.finish()
    alignment = aligned(run, tmp_path)
    assert (alignment.status, errors(alignment)) == ("aligned", [])


def test_made_good_and_something_else_went_wrong_later(tmp_path: Path) -> None:
    """Rank 1's call was refused and then made: it is no call short."""
    run = steps(2)
    refused(run.rank(1))
    for rank in run:
        rank.call(**GATHER)  # type: ignore[arg-type]
        loop(rank, 5)
    waits(run.rank(0), op="barrier", site="/job/end.py:1")
    crash(run.rank(1), "ValueError", "loss is nan", "/job/train.py:9")
    found = root(aligned(run, tmp_path))
    assert found.suspects == (1,)
    assert found.code == "CT302"
    assert "loss is nan" in found.cause


def test_a_trial_that_nobody_else_made(tmp_path: Path) -> None:
    run = steps(2)
    refused(run.rank(0), op="all_to_all_single", site="/job/probe.py:1")
    loop(run.rank(0), 5)
    loop(run.rank(1), 5)
    waits(run.rank(1), op="barrier", site="/job/end.py:1")
    run.rank(0).exit()
    assert root(aligned(run, tmp_path)).code != "CT306"
