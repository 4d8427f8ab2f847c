"""What decided it: loops that one side has left, and loops that go over a set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from collectrace.align.diagnosis import loop_lines, standpoint
from collectrace.align.diagnosis.wording import EVEN_BATCHES
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.judge import judge
from collectrace.records import Stack
from tests.support.judging import aligned, case_of, errors
from tests.support.synthetic import Run

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
    found = loop_lines.left(*left(tmp_path, [3, 3]))
    assert found is not None
    assert (found.gone.ranks, found.inside.ranks) == ((0,), (1, 2))
    assert found.loop.quoted == "`for batch in loader:` (train.py:2)"
    assert found.loop.way_out == "train.py:5"


def test_a_rank_that_was_never_in_it_has_not_left_it(tmp_path: Path) -> None:
    assert loop_lines.left(*left(tmp_path, [11, 11])) is None


def test_a_rank_that_has_been_behind_it_before_may_have_skipped_it(tmp_path: Path) -> None:
    assert loop_lines.left(*left(tmp_path, [3, 9])) is None


def test_a_loop_that_both_are_in_is_not_of_one(tmp_path: Path) -> None:
    case, candidate = left(tmp_path, [3, 3])
    inside, gone = sorted(standpoint.standpoints(candidate), key=lambda one: -len(one.ranks))
    loop = loop_lines.loop_of_one(case, inside, gone)
    assert loop is not None
    assert loop_lines.is_in(case, inside.stack, loop)
    assert not loop_lines.is_in(case, gone.stack, loop)
    assert loop_lines.loop_of_one(case, gone, inside) is None
    assert loop_lines.loop_of_one(case, inside, inside) is None


def test_what_ends_a_loop_early_must_be_decided_by_all(tmp_path: Path) -> None:
    case, candidate = left(tmp_path, [3, 3])
    found = loop_lines.left(case, candidate)
    assert found is not None
    assert "what ends it at train.py:5 must be decided by all" in (
        loop_lines.even_length(case, found.loop)
    )
    assert "cut or pad its data" in loop_lines.even_length(case)


def test_a_loop_without_a_way_out_is_evened_by_its_data(tmp_path: Path) -> None:
    script = EPOCHS.replace("            break", "            pass")
    case, candidate = left(tmp_path, [3, 3], script=script)
    found = loop_lines.left(case, candidate)
    assert found is not None
    assert found.loop.way_out == ""
    assert "cut or pad its data" in loop_lines.even_length(case, found.loop)


def test_where_a_loader_was_seen_it_is_evened_by_that(tmp_path: Path) -> None:
    run = Run(2)
    run.rank(0).batch(1)
    run.finish()
    assert loop_lines.even_length(case_of(run, tmp_path)) == EVEN_BATCHES


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
