"""What decided it: the conditions above the calls, other orders, rounds that were left out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from collectrace.align.diagnosis import decided
from collectrace.align.diagnosis.wording import EVEN_BATCHES
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.judge import judge
from collectrace.findings import Finding
from collectrace.records import Source, Stack
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
    run.all("all_reduce", site=f"{train}:3")
    for _ in range(3):
        run.all("all_reduce", site=f"{train}:3")
    for rank in run:
        first = rank.rank == 0
        call = rank.call(op if first else other_op, site=f"{train}:{line if first else other}")
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
    assert "has left the loop (`for step in range(9):`) after 4 times through it" in found.cause
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
            call = rank.call("all_reduce", reduce_op=op, site="/job/metrics.py:7")
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
    assert decided.conditions(case, judge(case)[0]) == ()


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


# -- loops that one side has left ------------------------------------------------------------------

EPOCHS = """\
def fit():
    for batch in loader:
        total(batch)
        if done:
            break
def main():
    for epoch in range(3):
        fit()
        report()
def warm_up():
    total(ones)
"""


def left(folder: Path, before: Sequence[int], *, script: str = EPOCHS) -> tuple[Case, Candidate]:
    """Rank 0 of three is at line 9, the others in the loop in fit(); ``before``: the lines that
    rank 0 has come from till then, where the others were in fit()."""
    train = folder / "train.py"
    train.write_text(script)
    frames = {
        3: [f"{train}:3 fit", f"{train}:8 main"], 9: [f"{train}:9 main"],
        11: [f"{train}:11 warm_up"],
    }  # fmt: skip
    run = Run(3)
    for rank in run:
        for number, those in frames.items():
            rank.record(Stack(stack=number, frames=those))
        for line in before if rank.rank == 0 else [3] * len(before):
            rank.call("all_reduce", site=f"{train}:{line}", stack=line)
        line = 9 if rank.rank == 0 else 3
        op = "barrier" if rank.rank == 0 else "all_reduce"
        rank.beat(60, rank.inside(rank.call(op, site=f"{train}:{line}", stack=line)))
    case = case_of(run, folder / "logs")
    return case, judge(case)[0]


def test_a_loop_in_a_function_that_one_rank_has_left(tmp_path: Path) -> None:
    found = decided.loop_left(*left(tmp_path, [3, 3]))
    assert found is not None
    assert (found.gone.ranks, found.inside.ranks) == ((0,), (1, 2))
    assert found.loop.quoted == "`for batch in loader:` (train.py:2)"
    assert found.loop.way_out == "train.py:5"


def test_a_rank_that_was_never_in_it_has_not_left_it(tmp_path: Path) -> None:
    assert decided.loop_left(*left(tmp_path, [11, 11])) is None


def test_a_rank_that_has_been_behind_it_before_may_have_skipped_it(tmp_path: Path) -> None:
    assert decided.loop_left(*left(tmp_path, [3, 9])) is None


def test_a_loop_that_both_are_in_is_not_of_one(tmp_path: Path) -> None:
    case, candidate = left(tmp_path, [3, 3])
    inside, gone = sorted(decided.standpoints(candidate), key=lambda one: -len(one.ranks))
    loop = decided.loop_of_one(case, inside, gone)
    assert loop is not None
    assert decided.is_in(case, inside, loop)
    assert not decided.is_in(case, gone, loop)
    assert decided.loop_of_one(case, gone, inside) is None
    assert decided.loop_of_one(case, inside, inside) is None


def test_what_ends_a_loop_early_must_be_decided_by_all(tmp_path: Path) -> None:
    case, candidate = left(tmp_path, [3, 3])
    found = decided.loop_left(case, candidate)
    assert found is not None
    assert "what ends it at train.py:5 must be decided by all" in (
        decided.even_length(case, found.loop)
    )
    assert "cut or pad its data" in decided.even_length(case)


def test_a_loop_without_a_way_out_is_evened_by_its_data(tmp_path: Path) -> None:
    script = EPOCHS.replace("            break", "            pass")
    case, candidate = left(tmp_path, [3, 3], script=script)
    found = decided.loop_left(case, candidate)
    assert found is not None
    assert found.loop.way_out == ""
    assert "cut or pad its data" in decided.even_length(case, found.loop)


def test_where_a_loader_was_seen_it_is_evened_by_that(tmp_path: Path) -> None:
    run = Run(2)
    run.rank(0).batch(1)
    run.finish()
    assert decided.even_length(case_of(run, tmp_path)) == EVEN_BATCHES


# -- lines of one loop, in whatever order ----------------------------------------------------------

COMBINE = """\
{loop}
    {condition}
        dist.all_gather(parts, value)
    else:
        dist.all_reduce(value)
"""


def combined(folder: Path, loop: str, condition: str) -> str:
    train = folder / "train.py"
    train.write_text(COMBINE.format(loop=loop, condition=condition))
    run = Run(3)
    for rank in run:
        line, op = (3, "all_gather") if rank.rank == 0 else (5, "all_reduce")
        site = f"{train}:{line}"
        rank.record(Stack(stack=1, frames=[f"{site} combine"]))
        rank.beat(60, rank.inside(rank.call(op, site=site, stack=1)))
    found = errors(aligned(run, folder / "logs"))[0]
    return found.cause + found.fix


def test_two_lines_of_one_loop_may_be_over_a_set(tmp_path: Path) -> None:
    told = combined(tmp_path, "for name, value in outputs.items():", "if name in rows:")
    assert "Both lines are in `for name, value in outputs.items():` (train.py:1)" in told
    assert "sorted(...)" in told


@pytest.mark.parametrize(
    ("loop", "condition"),
    [
        ("for step in range(9):", "if step in those:"),
        ("while not done:", "if name in rows:"),
        ("for name in outputs:", "if rank == 0:"),
        ("for name in outputs:", "if time.time() > end:"),
        ("with session:", "if name in rows:"),
    ],
)
def test_no_order_is_suspected(loop: str, condition: str, tmp_path: Path) -> None:
    assert "sorted(" not in combined(tmp_path, loop, condition)


# -- what an exception would have left out ---------------------------------------------------------


def test_the_innermost_handler_around_a_call_or_its_callers(tmp_path: Path) -> None:
    train = tmp_path / "train.py"
    train.write_text(TRAIN)
    frames = ["/job/net.py:8 gather", f"{train}:7 main"]
    assert decided.skipped_by(frames) == (
        " It stands in a `try:`: an exception that was caught by `except OSError:` (train.py:8) "
        "would have left it out."
    )


def test_a_line_in_no_try_would_not_have_been_left_out(tmp_path: Path) -> None:
    train = tmp_path / "train.py"
    train.write_text(TRAIN)
    assert decided.skipped_by([f"{train}:5 main", f"{train}:11 main"]) == ""
    assert decided.skipped_by([]) == ""
