"""Exceptions that would have left a note, had they been raised."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.records import HANDLED, Raised
from tests.unit.align.deciding.program import Program

FINALLY = """\
import torch.distributed as dist

for step in range(9):
    dist.broadcast(x, 0)  # FIRST
    try:
        if has_data(step):
            dist.all_reduce(x)  # DATA
    finally:
        dist.barrier()  # LAST
"""


def decisions(folder: Path, *, is_noted: bool) -> list[str]:
    """What can have sent rank 1 to the last line in the second iteration, past the data."""
    program = Program(folder, FINALLY)
    for rank in 0, 1:
        for mark, op in (("FIRST", "broadcast"), ("DATA", "all_reduce"), ("LAST", "barrier")):
            program.call(rank, op, (mark, "<module>"))
        program.call(rank, "broadcast", ("FIRST", "<module>"))
    program.run.rank(0).stuck_in(program.call(0, "all_reduce", ("DATA", "<module>")))
    one = program.run.rank(1)
    call = program.call(1, "barrier", ("LAST", "<module>"))
    if is_noted:
        one.record(Raised(what=HANDLED, error="OSError", t=call.t))
    one.stuck_in(call)
    return [one.text for one in program.decisions()]


def test_a_block_without_a_noted_exception_was_entered_as_usual(tmp_path: Path) -> None:
    assert decisions(tmp_path, is_noted=False) == ["if has_data(step):"]


def test_an_exception_may_have_led_into_a_block_with_a_note(tmp_path: Path) -> None:
    assert decisions(tmp_path, is_noted=True) == ["try:", "if has_data(step):"]


RETRIED = """\
import torch.distributed as dist

def fetch(name):
    for _ in range(3):
        try:
            dist.barrier()  # ENTER
            return
        except OSError:
            print("again")

for name in names:
    fetch(name)  # FETCH
    if is_empty(name):
        continue
    dist.all_reduce(x)  # REDUCE
"""


@pytest.mark.parametrize("is_noted", [False, True])
def test_a_recorded_call_that_is_not_noted_to_have_raised_did_not(
    tmp_path: Path, *, is_noted: bool
) -> None:
    program = Program(tmp_path, RETRIED)
    enter = ("ENTER", "fetch"), ("FETCH", "<module>")
    for rank in 0, 1:
        program.call(rank, "barrier", *enter)
        program.call(rank, "all_reduce", ("REDUCE", "<module>"))
        program.call(rank, "barrier", *enter)
    program.run.rank(0).stuck_in(program.call(0, "all_reduce", ("REDUCE", "<module>")))
    one = program.run.rank(1)
    if is_noted:
        one.record(Raised(what="barrier", error="OSError"))
    one.stuck_in(program.call(1, "barrier", *enter))
    expected = ["if is_empty(name):"]
    found = [one.text for one in program.decisions()]
    assert found == (["except OSError:", *expected] if is_noted else expected)
