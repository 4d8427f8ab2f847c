"""Whether a rank may have gone past a message by what others had told it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from collectrace.align.judging.may_be_told import may_be_told, share
from collectrace.align.judging.own_round import program_of
from tests.support.judging import case_of
from tests.support.stacks import Stacks
from tests.support.synthetic import Run

AHEAD = """\
def take():
    recv(order, 0)
def work():
    for step in range(9):
        if busy:
            continue
        send(score, 0)
        if order[0] < 0:
            break
        recv(order, 0)
    barrier()
work()
"""
"""What leads past the send by what was received lies behind it, and ahead of the receive."""
BEFORE = AHEAD.replace("if busy:", "if order[1] < 0:")
BEHIND = AHEAD.replace(
    "    barrier()", "        if order[2] < 0:\n            break\n    barrier()"
)
KEEPS = AHEAD.replace("(order, 0)\ndef", "(order, 0); self.done = order[0]\ndef")
SEND, TAKE, END = 7, 10, 11


def asks(script: str, condition: str) -> str:
    return script.replace("if busy:", f"if {condition}:")


def told(folder: Path, script: str, *, inside: bool = True, end: int = END) -> bool:
    """Whether rank 1, which came to a barrier behind a receive, may have been told to.

    ``inside``: whether it receives in the function in which it sends.
    """
    file = folder / "job.py"
    file.write_text(script)
    run, stacks = Run(2), Stacks()
    zero, one = run
    outer = f"{file}:{12 + end - END} <module>"
    take = [f"{file}:{TAKE} work", outer]
    take = take if inside else [f"{file}:2 take", *take]
    for _ in range(4):
        sent = one.send(0, **stacks.at(one, f"{file}:{SEND} work", outer))
        zero.recv(1, site="serve.py:3")
        zero.send(1, site="serve.py:4")
        one.recv(0, **stacks.at(one, *take))
    made = one.call("barrier", **stacks.at(one, f"{file}:{end} work", outer))
    one.stuck_in(made)
    zero.stuck_in(zero.recv(1, site="serve.py:3"))
    case = case_of(run, folder / "logs")
    program = program_of(case, 1)
    assert program is not None
    left_out, instead = program.call(len(program.steps) - 3), program.call(len(program.steps) - 1)
    assert left_out is not None
    assert instead is not None
    assert (left_out.seq, instead.op) == (sent.seq, made.op)
    return may_be_told(case, program, left_out, instead, 0)


@pytest.mark.parametrize(
    ("script", "inside", "end", "is_told"),
    [
        pytest.param(AHEAD, True, END, False, id="gone by when it last received"),
        pytest.param(BEFORE, True, END, True, id="ahead of the send"),
        pytest.param(BEHIND, True, END + 2, True, id="behind the receive"),
        pytest.param(AHEAD, False, END, False, id="that receives in a function of its own"),
        pytest.param(asks(KEEPS, "self.done"), False, END, True, id="what that function sets"),
        pytest.param(asks(KEEPS, "self.busy"), False, END, False, id="what it does not set"),
        pytest.param(asks(AHEAD, "step in SKIPPED"), True, END, True, id="a plan of all"),
        pytest.param(asks(AHEAD, "step > LIMIT"), True, END, False, id="a limit of all"),
    ],
)
def test_a_way_past_that_was_gone_by(
    script: str, inside: bool, end: int, is_told: bool, tmp_path: Path
) -> None:
    assert told(tmp_path, script, inside=inside, end=end) is is_told


def met(pairs: Sequence[tuple[int, int]], *, op: str = "", dtype: str = "float32") -> Run:
    """Of five ranks, who have exchanged a message; ``op``: what ranks 0 and 4 call together."""
    run = Run(5)
    for source, to in pairs:
        run.rank(source).send(to)
        run.rank(to).recv(source)
    run.group("ends", [0, 4])
    if op:
        run.all(op, "ends", shape=[64], dtype=dtype)
    run.finish()
    return run


@pytest.mark.parametrize(
    ("run", "is_shared"),
    [
        pytest.param(met([(0, 2), (2, 4)]), False, id="through the third alone"),
        pytest.param(met([(0, 2), (2, 4), (0, 4)]), True, id="directly"),
        pytest.param(met([(0, 2), (2, 4), (4, 0)]), True, id="back"),
        pytest.param(met([(0, 2), (2, 4), (0, 1), (1, 3), (3, 4)]), True, id="through others"),
        pytest.param(met([(0, 2), (2, 4), (0, 1), (3, 4)]), False, id="not through others"),
        pytest.param(met([(0, 2)], op="broadcast"), True, id="by a broadcast"),
        pytest.param(met([(0, 2)], op="barrier"), False, id="a barrier tells nothing"),
        pytest.param(met([(0, 2)], op="all_reduce"), False, id="nor does a sum"),
        pytest.param(met([(0, 2)], op="all_reduce", dtype="int64"), True, id="a sum of numbers"),
    ],
)
def test_who_may_know_of_each_other(run: Run, is_shared: bool, tmp_path: Path) -> None:
    assert share(case_of(run, tmp_path), 0, 4, 2) is is_shared
    assert share(case_of(run, tmp_path / "again"), 4, 0, 2) is is_shared


def test_of_a_rank_without_a_log_it_may_know_all(tmp_path: Path) -> None:
    run = met([(0, 2), (2, 4), (0, 1)])
    run.omit(1)
    assert share(case_of(run, tmp_path), 4, 0, 2)
