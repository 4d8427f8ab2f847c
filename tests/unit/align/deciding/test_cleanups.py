"""A ``finally`` that would have left a note, had an exception led into it."""

from __future__ import annotations

from pathlib import Path

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
