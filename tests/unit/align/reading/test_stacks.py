"""Stack and source records: found wherever they lie in a log that is read in part."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.align.reading.run_reader import read
from collectrace.records import Source, Stack
from tests.support.synthetic import Run


@pytest.mark.parametrize("small", [0, 1 << 30])
def test_the_stack_of_a_call(tmp_path: Path, small: int) -> None:
    run = Run(1)
    rank = run.rank(0)
    for number in range(1, 9):
        frames = [f"/job/comm.py:8 reduce{number}", "/job/train.py:20 main"]
        rank.record(Stack(stack=number, frames=frames))
        for _ in range(500):
            rank.call("all_reduce", stack=number)
    rank.call("all_reduce")
    folder = run.write(tmp_path)
    log = read(folder, small=small).logs[0]
    (stream,) = log.last_seq
    for seq in (1, 500, 501, 2750, 4000):
        call = log.calls(stream, seq, seq + 1)[0]
        assert call is not None
        found = log.stack(call)
        assert found is not None, seq
        assert found.frames[0].endswith(f"reduce{(seq + 499) // 500}")
    last = log.last_call
    assert last is not None
    assert log.stack(last) is None
    assert log.scanned == (small > 0)


def test_the_stack_of_a_call_where_checkpoints_are_far_apart(tmp_path: Path) -> None:
    """As they are in a file with thousands of channels."""
    made = Run(1, checkpoint=1 << 20)
    rank = made.rank(0)
    for number in range(1, 9):
        rank.record(Stack(stack=number, frames=[f"/job/comm.py:8 reduce{number}"]))
        for _ in range(2000):
            rank.call("all_reduce", stack=number)
    folder = made.write(tmp_path)
    log = read(folder, small=0).logs[0]
    (stream,) = log.last_seq
    for seq in (3_900, 7_900):
        call = log.calls(stream, seq, seq + 1)[0]
        assert call is not None
        found = log.stack(call)
        assert found is not None, seq
        assert found.frames == [f"/job/comm.py:8 reduce{(seq + 1999) // 2000}"]
    assert not log.scanned


def test_a_stack_that_was_lost_is_none(tmp_path: Path) -> None:
    run = Run(1)
    run.rank(0).call("all_reduce", stack=3)
    log = read(run.write(tmp_path)).logs[0]
    assert log.last_call is not None
    assert log.stack(log.last_call) is None


def test_sources_of_all_ranks_are_one_map(tmp_path: Path) -> None:
    run = Run(2)
    for rank in run:
        rank.record(Source(site=f"/job/a.py:{rank.rank}", lines=["3 if rank == 0:", "4     f()"]))
    code = read(run.write(tmp_path)).source_files
    for site in ("/job/a.py:0", "/job/a.py:1"):
        assert code.line(site) == "f()"
