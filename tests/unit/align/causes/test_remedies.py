"""What a reader is told to change names what the statement that decided tests or computes."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.findings import Finding
from tests.unit.align.deciding.program import Program

TEXT = """\
import torch.distributed as dist

def run(data):
    dist.barrier()  # FIRST
    {head}  # HEAD
        dist.all_reduce(data)  # INSIDE
    dist.broadcast(data, 0)  # BEHIND

run({data})  # MAIN
"""

MAIN = ("MAIN", "<module>")

CALLS = "every rank makes the call only if all do"
LEAVES = "every rank leaves the loop in the same iteration if one does"


def finding(folder: Path, head: str, data: str = "load()", text: str = TEXT) -> Finding:
    """Rank 0 is inside the statement of a head, and rank 1 behind it."""
    program = Program(folder, text.format(head=head, data=data))
    for rank, (op, mark) in enumerate((("all_reduce", "INSIDE"), ("broadcast", "BEHIND"))):
        program.call(rank, "barrier", ("FIRST", "run"), MAIN)
        program.run.rank(rank).stuck_in(program.call(rank, op, (mark, "run"), MAIN))
    return program.align().findings[0]


@pytest.mark.parametrize(
    ("head", "named"),
    [
        (
            "if data.isfinite():",
            f"all_reduce `data.isfinite()` with MIN, so that {CALLS} (MAX: if one does; a rank",
        ),
        (
            "if data.empty():\n        data.skip()\n    else:",
            f"all_reduce `data.empty()` with MAX, so that {CALLS} (MIN: if one does; a rank",
        ),
        (
            "while True:\n        if data.ended():\n            break",
            f"all_reduce `data.ended()` with MAX, so that {LEAVES} (MIN: only if all do).",
        ),
        (
            """while True:
        if data.left():
            data.go()
        else:
            break""",
            f"all_reduce `data.left()` with MIN, so that {LEAVES} (MAX: only if all do).",
        ),
        ("if not (data > 0).any():", "all_reduce `not (data > 0).any()` with MIN"),
        ("while data.norm() > 1:", "all_reduce `data.norm() > 1` with MIN"),
        ("for n in range(data.max()):", "all_reduce `data.max()` with MIN"),
        ("for n in range(1, data.max()):", "all_reduce `data.max()` with MIN"),
        ("for n in range(data.first(), 9):", "broadcast `data.first()` from one rank"),
        ("for one in data.rows:", "Give `data.rows` the same items in the same order, or"),
        ("for one in sorted(data.rows):", "Give `data.rows` the same items on every rank, with a"),
        ("for n in range(data.a(), data.b()):", "Broadcast what `range(data.a(), data.b())` is"),
        (
            "while True:\n        if data.done().all():\n            break",
            "all_reduce `data.done().all()` with MIN, so that every rank leaves the loop",
        ),
        (
            "while True:\n        if data.shape[0] == 0:\n            break",
            "Let a rank with nothing in `data` make the calls after",
        ),
        (
            "while True:\n        if len(data) == 0:\n            break",
            "all_reduce `len(data) == 0` with MIN, so that every rank leaves the",
        ),
        (f"if data.{'a' * 60}:", "all_reduce the condition with MIN"),
    ],
)
def test_a_fix_names_what_is_tested(head: str, named: str, tmp_path: Path) -> None:
    assert named in finding(tmp_path, head).fix


def test_who_leaves_behind_its_call_takes_all_ranks_along(tmp_path: Path) -> None:
    # An interruption that one rank was told of is one for all.
    text = TEXT.replace("# INSIDE", "# INSIDE\n        return")
    found = finding(tmp_path, "if data.stopped():", text=text)
    assert "all_reduce `data.stopped()` with MAX, so that every rank makes the call" in found.fix


SETS = """

def on_evaluate(control, metrics):
    if metrics["loss"] > 1:
        control.should_training_stop = True  # SETS
"""


def test_the_reason_names_the_line_that_sets_a_flag(tmp_path: Path) -> None:
    head = "while True:\n        if data.should_training_stop:\n            break"
    found = finding(tmp_path, head, text=TEXT + SETS)
    assert "`control.should_training_stop = True` (train.py:16)" in found.cause


def test_a_folder_may_have_a_space_in_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "my job"
    folder.mkdir()
    found = finding(folder, "if data.isfinite():")
    assert "inside `if data.isfinite():`" in found.cause
    assert {one.path for one in found.excerpt or ()} == {str(folder / "train.py")}


def test_the_reason_names_the_line_that_fills_a_list(tmp_path: Path) -> None:
    found = finding(tmp_path, "for one in [each for each in data]:", "[losses[rank]]")
    assert "`run([losses[rank]])" in found.cause
