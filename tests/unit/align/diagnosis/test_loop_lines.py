"""Loops by their lines: what they go by, and who is out of one that others are in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from collectrace.align.diagnosis import come_out
from collectrace.align.diagnosis.loop_lines import LoopLine, even_length, has_own_order
from collectrace.align.diagnosis.wording import EVEN_BATCHES, ONE_LENGTH
from collectrace.align.judging.judge import judge
from collectrace.align.reading.code_files import CodeFiles
from collectrace.records import Stack
from tests.support.judging import case_of
from tests.support.synthetic import Run


@pytest.mark.parametrize(
    ("text", "is_counted"),
    [
        ("for epoch in range(EPOCHS):", True),
        ("for _ in trange(start, stop):", True),
        ("for n in itertools.count(begin):", True),
        ("while not converged:", True),
        ("for step in range(len(batches)):", False),
        ("for batch in loader:", False),
        ("for name in ranges(3):", False),
        ("for x in meanwhile:", False),
    ],
)
def test_what_goes_by_a_count_is_no_data(text: str, is_counted: bool) -> None:
    assert LoopLine("train.py:3 fit", f"3     {text}", CodeFiles()).is_counted is is_counted


@pytest.mark.parametrize(
    ("text", "has_order"),
    [
        ("for name in names:", False),
        ("for key, value in metrics.items():", False),
        ("for name in sorted(names):", True),
        ("for step, batch in enumerate(train_loader):", True),
        ("for batch in self.batches:", True),
        ("for p in model.parameters():", True),
        ("for metric in (loss, accuracy):", True),
        ("for metric in {loss, accuracy}:", False),
        ("for metric in (loss, accuracy) + more:", False),
    ],
)
def test_what_comes_in_one_order_on_every_rank(text: str, has_order: bool) -> None:
    assert has_own_order(f"3     {text}") is has_order


# -- who is out of a loop --------------------------------------------------------------------------

PROGRAM = """\
def go(pages):
    for page in pages:
        total(page)
def report(result):
    meet()
report(go(first))
report(rest)
for step in steps:
    go(step)
    report(step)
"""
PAGE, REPORT, LATER = ["3 go", "6 <module>"], ["5 report", "6 <module>"], ["5 report", "7 <module>"]
STEP_PAGE, STEP_REPORT = ["3 go", "9 <module>"], ["5 report", "10 <module>"]


def out_of(
    folder: Path, *programs: Sequence[list[str]], text: str = PROGRAM
) -> tuple[tuple[int, ...], str]:
    """Who is out of a loop, by the lines that ranks 0 to 2 come from, and the loop's line."""
    program = folder / "job.py"
    program.write_text(text)
    run = Run(len(programs))
    known: list[list[str]] = []
    for rank, lines in zip(run, programs, strict=True):
        for line in lines:
            if line not in known:
                known.append(line)
            number = known.index(line) + 1
            frames = [f"{program}:{frame}" for frame in line]
            rank.record(Stack(stack=number, frames=frames))
            op = "barrier" if "report" in line[0] else "all_reduce"
            site = frames[0].partition(" ")[0]
            call = rank.call(op, site=site, stack=number)
        rank.beat(60, rank.inside(call))
    case = case_of(run, folder / "logs")
    found = come_out.out_of(case, judge(case)[0])
    return (found.gone.ranks, found.loop.line) if found is not None else ((), "")


@pytest.mark.parametrize("behind", [REPORT, LATER])
def test_who_is_behind_the_function_of_a_loop_is_out_of_it(
    behind: list[str], tmp_path: Path
) -> None:
    pages = [PAGE] * 4
    assert out_of(tmp_path, pages, pages, [*pages[:3], behind]) == (
        (2,),
        "2     for page in pages:",
    )


@pytest.mark.parametrize(
    "branch",
    [
        "    if step: report(step)",
        "    go(step) or report(step)",
        "    report(step) if step else 0",
    ],
)
def test_in_a_loop_around_both_a_new_line_may_be_a_branch_of_that(
    branch: str, tmp_path: Path
) -> None:
    text = PROGRAM.replace("    report(step)", branch)
    pages = [STEP_PAGE] * 4
    assert out_of(tmp_path, pages, pages, [*pages[:3], STEP_REPORT], text=text) == ((), "")


@pytest.mark.parametrize("jump", ["return", "raise ValueError"])
def test_in_a_loop_around_both_a_new_line_may_be_jumped_over(jump: str, tmp_path: Path) -> None:
    text = PROGRAM.replace("    meet()", f"    if not result: {jump}; meet()")
    pages = [STEP_PAGE] * 4
    assert out_of(tmp_path, pages, pages, [*pages[:3], STEP_REPORT], text=text) == ((), "")


def test_in_a_loop_around_both_a_new_line_that_all_come_to_is_behind(tmp_path: Path) -> None:
    pages = [STEP_PAGE] * 4
    found = out_of(tmp_path, pages, pages, [*pages[:3], STEP_REPORT])
    assert found == ((2,), "2     for page in pages:")


def test_in_a_loop_around_both_a_line_that_always_came_behind_is_behind(tmp_path: Path) -> None:
    rounds = [STEP_PAGE, STEP_PAGE, STEP_REPORT] * 3
    whole = [*rounds, STEP_PAGE, STEP_PAGE]
    found = out_of(tmp_path, whole, whole, [*rounds, STEP_PAGE, STEP_REPORT])
    assert found == ((2,), "2     for page in pages:")


def test_who_has_not_been_in_the_loop_has_not_left_it(tmp_path: Path) -> None:
    rounds = [STEP_PAGE, STEP_PAGE, STEP_REPORT] * 3
    whole = [*rounds, STEP_PAGE]
    assert out_of(tmp_path, whole, whole, [*rounds, STEP_REPORT]) == ((), "")


@pytest.mark.parametrize(
    ("lengths", "ends", "is_even"),
    [
        pytest.param([4, 4], [4, 4], True, id="as long on both"),
        pytest.param([4, 3], [4, 3], False, id="shorter on one"),
        pytest.param([4, 4], [4, 3], False, id="ended earlier than it said"),
        pytest.param([None, None], [4, 4], False, id="not known beforehand"),
    ],
)
def test_even_batches_are_asked_for_where_they_may_not_have_been(
    lengths: list[int | None], ends: list[int], is_even: bool, tmp_path: Path
) -> None:
    run = Run(2)
    for rank, length, end in zip(run, lengths, ends, strict=True):
        for n in range(end):
            rank.batch(n + 1, length=length if n == 0 else None)
            rank.call("all_reduce")
        rank.batch(end, end=True)
    case = case_of(run, tmp_path)
    assert even_length(case) == (ONE_LENGTH if is_even else EVEN_BATCHES)
