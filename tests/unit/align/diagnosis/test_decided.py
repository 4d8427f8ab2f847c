"""What decided it: the conditions above the calls, other orders, rounds that were left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.align.diagnosis import conditions, decided
from collectrace.align.judging.judge import judge
from collectrace.findings import Finding
from collectrace.records import Source, Stack
from tests.support.code import code_of
from tests.support.judging import aligned, case_of, errors
from tests.support.synthetic import Run

SCRIPT = """\
import time
for step in range(9):
    dist.all_reduce(loss)
    if rank == 0:
        dist.barrier()
    try:
        work()
    except ValueError:
        dist.broadcast(flag, 0)
    if time.time() - began > 60:
        dist.all_gather(out, loss)
if last:
    dist.reduce(loss, 0)
else:
    dist.reduce_scatter(out, loss)
dist.broadcast(loss, 0)
"""


def script(folder: Path) -> str:
    path = folder / "train.py"
    path.write_text(SCRIPT)
    return str(path)


def parted(
    folder: Path, line: int, op: str, other: int = 3, other_op: str = "all_reduce"
) -> Finding:
    """Rank 0 of three at one line of the script, the others at another, after four rounds."""
    train = script(folder)
    run = Run(3)
    for rank in run:
        for n in sorted({3, line, other}):
            rank.record(Stack(stack=n, frames=[f"{train}:{n} <module>"]))
        for _ in range(4):
            rank.call("all_reduce", site=f"{train}:3", stack=3)
        op_, at = (op, line) if rank.rank == 0 else (other_op, other)
        call = rank.call(op_, site=f"{train}:{at}", stack=at)
        rank.beat(60, rank.inside(call))
    return errors(aligned(run, folder / "logs"))[0]


def test_a_condition_on_the_rank(tmp_path: Path) -> None:
    found = parted(tmp_path, 5, "barrier")
    assert "Only rank 0 was under `if rank == 0:` (train.py:4), which asks for the rank" in (
        found.cause
    )
    assert "left the loop" not in found.cause
    assert "Take the barrier at train.py:5 out of `if rank == 0:` (train.py:4)" in found.fix
    (line,) = [line for line in found.sources if line.site.endswith(":5")]
    assert line.text == "dist.barrier()"
    assert line.enclosing == ("2 for step in range(9):", "4     if rank == 0:")


def test_an_exception_that_was_caught(tmp_path: Path) -> None:
    found = parted(tmp_path, 9, "broadcast")
    assert "under `except ValueError:` (train.py:8), so an exception was caught" in found.cause
    assert "error flag" in found.fix


def test_a_clock_in_the_condition(tmp_path: Path) -> None:
    found = parted(tmp_path, 11, "all_gather")
    assert "which reads a clock" in found.cause
    assert "rank == 0" not in found.cause + found.fix


def test_a_loop_that_was_left_is_no_branch(tmp_path: Path) -> None:
    found = parted(tmp_path, 16, "broadcast")
    assert "rank 0 is out of the loop `for step in range(9):` (train.py:2)" in found.cause
    assert "under" not in found.cause
    assert "branch" not in found.cause
    assert "same length" in found.fix


def test_two_branches_of_one_condition(tmp_path: Path) -> None:
    found = parted(tmp_path, 13, "reduce", 15, "reduce_scatter_tensor")
    assert "`if last:` (train.py:12) parted them" in found.cause


def test_without_the_source_nothing_is_made_up(tmp_path: Path) -> None:
    run = Run(3)
    for rank in run:
        call = rank.call("barrier" if rank.rank == 0 else "all_reduce", site="/gone/train.py:3")
        rank.beat(60, rank.inside(call))
    found = errors(aligned(run, tmp_path))[0]
    assert "The logs do not show what decided it." in found.cause
    assert "Up to here the ranks agree" not in found.cause


def permuted(folder: Path, *orders: tuple[str, ...]) -> Finding:
    run = Run(len(orders))
    for rank, order in zip(run, orders, strict=True):
        for op in order:
            line = 9 if op == "AVG" else 7
            call = rank.call("all_reduce", reduce_op=op, site=f"/job/metrics.py:{line}")
        rank.beat(60, rank.inside(call))
    return errors(aligned(run, folder))[0]


def test_the_same_calls_in_other_orders_blame_nobody(tmp_path: Path) -> None:
    """Two agree in the first row, and are at odds in the second."""
    found = permuted(tmp_path, ("SUM", "MAX", "MIN"), ("SUM", "MIN", "MAX"), ("MIN", "MAX", "SUM"))
    assert found.suspects == ()
    assert "the same 3 calls at metrics.py:7 in permuted order, 3 orders" in found.cause
    assert "sorted(...)" in found.fix


def test_one_rank_in_another_order_is_the_one(tmp_path: Path) -> None:
    same = ("SUM", "MAX", "MIN")
    found = permuted(tmp_path, same, same, ("MIN", "MAX", "SUM"))
    assert found.suspects == (2,)
    assert "permuted order" in found.cause


def test_only_the_lines_that_change_places_are_named(tmp_path: Path) -> None:
    found = permuted(tmp_path, ("SUM", "AVG", "MIN"), ("MIN", "AVG", "SUM"))
    assert "the same 3 calls, but those at metrics.py:7 in permuted order" in found.cause
    assert "metrics.py:9" not in found.cause


def test_other_calls_are_no_other_order(tmp_path: Path) -> None:
    found = permuted(tmp_path, ("SUM", "MAX", "MIN"), ("SUM", "MAX", "MIN"), ("MIN", "MAX", "MIN"))
    assert "permuted" not in found.cause


def helped(folder: Path, callers: tuple[str, str]) -> Finding:
    """All calls come from comm.py; in the last row rank 0 has another caller there."""
    run = Run(3)
    for rank in run:
        for n, caller in enumerate((callers[1], callers[0]), 1):
            rank.record(Stack(stack=n, frames=["/job/comm.py:8 total", caller]))
        rank.calls(4, "all_reduce", site="/job/comm.py:8", stack=1)
        first = rank.rank == 0
        call = rank.call(
            "all_reduce", shape=[3 if first else 1], site="/job/comm.py:8", stack=2 if first else 1
        )
        rank.beat(60, rank.inside(call))
    return errors(aligned(run, folder))[0]


def test_calls_of_one_helper_bear_their_callers_lines(tmp_path: Path) -> None:
    found = helped(tmp_path, ("/job/train.py:24 clip", "/job/train.py:28 log"))
    assert found.suspects == (0,)
    assert "train.py:24" in found.headline
    assert "train.py:28" in found.headline
    assert "comm.py" not in found.headline
    assert found.table is not None
    root = next(row for row in found.table.rows if row.mark == "root")
    assert {c.site for c in root.cells if c} == {"/job/train.py:24", "/job/train.py:28"}


def test_calls_of_one_caller_bear_their_own_line(tmp_path: Path) -> None:
    found = helped(tmp_path, ("/job/train.py:28 log", "/job/train.py:28 log"))
    assert "comm.py:8" in found.headline
    assert "train.py" not in found.headline


def rounds(folder: Path, skipped: int, *, joins: bool = False) -> Finding:
    """Ten rounds that look alike, of which rank 1 leaves one out."""
    run = Run(3)
    if joins:
        for rank in run:
            rank.join("entered", iteration=0)
    for n in range(1, 11):
        for rank in run:
            if (rank.rank, n) != (1, skipped):
                call = rank.call(
                    "all_reduce", role="ddp.backward.bucket", iteration=n, site="/job/train.py:9"
                )
    for rank in run:
        rank.exit() if rank.rank == 1 else rank.beat(60, rank.inside(call))
    return errors(aligned(run, folder))[0]


def test_a_round_that_was_left_out_where_all_look_alike(tmp_path: Path) -> None:
    found = rounds(tmp_path, 4)
    assert "Rank 1 skipped iteration 4" in found.cause
    assert "call 4" in found.cause
    assert "ran longer" not in found.cause


def test_the_last_round_left_out_is_a_loop_that_ended(tmp_path: Path) -> None:
    assert "skipped" not in rounds(tmp_path, 10).cause


def test_iterations_differ_by_right_inside_join(tmp_path: Path) -> None:
    assert "skipped" not in rounds(tmp_path, 4, joins=True).cause


# -- conditions above callers, of what a framework issues ------------------------------------------

TRAIN = """\
def main():
    for step in range(9):
        model(batch)
        if rank == 0:
            log(model)
        try:
            save(model)
        except OSError:
            pass
        finally:
            sync(model)
"""


def issued(folder: Path, line: int, role: str, *, recorded: bool = False) -> Run:
    """Four rounds from line 3; then rank 0 issues something from another line of the script.

    All calls stand in one line of a module, below the frames of the script.
    """
    train = folder / "train.py"
    train.write_text(TRAIN)
    run = Run(3)
    for rank in run:
        for number, caller in ((1, 3), (2, line)):
            frames = ["/job/net.py:8 gather", f"{train}:{caller} main"]
            rank.record(Stack(stack=number, frames=frames))
        if recorded:
            rank.record(Source(site=f"{train}:11", lines=[
                "1 def main():", "2     for step in range(9):", "6         try:",
                "10         finally:", "11             sync(model)",
            ]))  # fmt: skip
        rank.calls(4, "all_gather_single", role=role, site="/job/net.py:8", stack=1, shape=[8])
        first = rank.rank == 0
        call = rank.call(
            "all_gather_single", role=role, site="/job/net.py:8",
            stack=2 if first else 1, shape=[4 if first else 8],
        )  # fmt: skip
        rank.beat(60, rank.inside(call))
    return run


@pytest.mark.parametrize("role", ["user", "fsdp.unshard", "dtensor.redistribute"])
def test_a_condition_above_a_caller(role: str, tmp_path: Path) -> None:
    found = errors(aligned(issued(tmp_path, 5, role), tmp_path))[0]
    assert found.suspects == (0,)
    assert "`if rank == 0:` (train.py:4)" in found.cause + found.fix


def test_what_ddp_issues_is_not_decided_by_what_stands_around_its_line(tmp_path: Path) -> None:
    case = case_of(issued(tmp_path, 5, "ddp.backward.bucket"), tmp_path)
    assert conditions.of_sides(case, judge(case)[0]) == ()


def test_a_finally_block(tmp_path: Path) -> None:
    run = issued(tmp_path, 11, "user", recorded=True)
    found = errors(aligned(run, tmp_path))[0]
    assert "under `finally:` (train.py:10), which an exception comes to as well" in found.cause
    assert "Issue no collective from a `finally` block" in found.fix


def test_a_condition_that_all_stand_under_decides_nothing(tmp_path: Path) -> None:
    train = tmp_path / "train.py"
    train.write_text("if rank < 9:\n    first(x)\n    second(x)\n")
    run = Run(3)
    for rank in run:
        line = 2 if rank.rank == 0 else 3
        rank.record(Stack(stack=1, frames=["/job/net.py:8 total", f"{train}:{line} <module>"]))
        call = rank.call("all_reduce", shape=[line], site="/job/net.py:8", stack=1)
        rank.beat(60, rank.inside(call))
    found = errors(aligned(run, tmp_path / "logs"))[0]
    assert "rank < 9" not in found.cause + found.fix


# -- what an exception would have left out ---------------------------------------------------------


def test_the_innermost_handler_around_a_call_or_its_callers(tmp_path: Path) -> None:
    train = tmp_path / "train.py"
    train.write_text(TRAIN)
    frames = ["/job/net.py:8 gather", f"{train}:7 main"]
    assert decided.skipped_by(code_of(train), frames) == (
        " It stands in a `try:`: an exception that was caught by `except OSError:` (train.py:8) "
        "would have left it out."
    )


def test_a_line_in_no_try_would_not_have_been_left_out(tmp_path: Path) -> None:
    train = tmp_path / "train.py"
    train.write_text(TRAIN)
    assert decided.skipped_by(code_of(train), [f"{train}:5 main", f"{train}:11 main"]) == ""
    assert decided.skipped_by(code_of(), []) == ""
