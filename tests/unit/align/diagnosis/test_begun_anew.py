"""Who is in a loop that others have left: gone on in it, or come into it anew."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from collectrace.align.diagnosis import begun_anew, come_out
from collectrace.align.judging.judge import judge
from collectrace.records import Stack
from tests.support.judging import case_of
from tests.support.synthetic import Run

PROGRAM = """\
def go(pages):
    for page in pages:
        total(page)
def report(result):
    if not result:
        return
    meet()
def tell(result):
    meet()
for step in steps:
    go(step)
    report(step)
    tell(step)
go(rest)
report(rest)
"""
PAGE, REPORT, TELL = (
    ["3 go", "11 <module>"], ["7 report", "12 <module>"], ["9 tell", "13 <module>"],
)  # fmt: skip
REST, LAST = ["3 go", "14 <module>"], ["7 report", "15 <module>"]


def told(
    folder: Path,
    mine: Sequence[list[str]],
    theirs: Sequence[list[str]],
    suspects: tuple[int, ...],
    text: str = PROGRAM,
) -> str | None:
    """Of rank 0, who has left the loop, and rank 1, who is in it; None: that is decided."""
    program = folder / "job.py"
    program.write_text(text)
    run = Run(2)
    known: list[list[str]] = []
    for rank, lines in zip(run, (mine, theirs), strict=True):
        for line in lines:
            if line not in known:
                known.append(line)
            number = known.index(line) + 1
            frames = [f"{program}:{frame}" for frame in line]
            rank.record(Stack(stack=number, frames=frames))
            op = "all_reduce" if "go" in line[0] else "barrier"
            call = rank.call(op, site=frames[0].partition(" ")[0], stack=number)
        rank.beat(60, rank.inside(call))
    case = case_of(run, folder / "logs")
    candidate = judge(case)[0]
    left = come_out.out_of(case, candidate)
    assert left is not None
    assert left.gone.ranks == (0,)
    seq = candidate.seq or 0
    found = begun_anew.seen(case, left, candidate.stream, seq, suspects)
    return found.cause if found is not None else None


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        pytest.param([3], 3, "as many rounds of it before: either it went on", id="as before"),
        pytest.param([3], 2, "Either it ended earlier on rank 0, or rank 1", id="once is no habit"),
        pytest.param([2, 3], 2, "Either it ended earlier on rank 0, or rank 1", id="of any length"),
        pytest.param([3, 3], 2, None, id="shorter than always"),
        pytest.param([4, 4], 2, "Either it ended earlier on rank 0, or rank 1", id="two in one"),
    ],
)
def test_by_the_rounds_before(
    before: Sequence[int], now: int, said: str | None, tmp_path: Path
) -> None:
    both = [line for n in before for line in [*[PAGE] * n, REPORT]] + [PAGE] * now
    found = told(tmp_path, [*both, REPORT], [*both, PAGE], ())
    assert found is None if said is None else found is not None and said in found
    if found is not None:
        assert "in the next round of `for step in steps:` (job.py:10)" in found
        assert "`if not result:` (job.py:5), with a return" in found


@pytest.mark.parametrize(
    ("loop", "body", "is_one"),
    [
        ("for page in range(2):", "total(page)", True),
        ("for page in range(2):", "total(page) or exit_(); break", False),
        ("for page in range(1, 3):", "total(page)", True),
        ("for page in range(3):", "total(page)", False),  # an exception may have ended it
        ("for page in range(pages):", "total(page)", False),
        ("for page in range(PAGES):", "total(page)", False),
    ],
)
def test_a_loop_of_fixed_length_did_not_end_earlier(
    loop: str, body: str, is_one: bool, tmp_path: Path
) -> None:
    text = PROGRAM.replace("for page in pages:", loop, 1).replace("total(page)", body, 1)
    both = [PAGE, PAGE, REPORT, PAGE, PAGE]
    found = told(tmp_path, [*both, REPORT], [*both, PAGE], (), text)
    assert found is not None
    assert ("either it went on for longer on rank 1, or" in found) is not is_one
    assert found.startswith("It goes equally often on every rank: rank 1 went past") is is_one


def test_who_left_the_loop_is_to_blame(tmp_path: Path) -> None:
    both = [PAGE, PAGE, REPORT, PAGE, PAGE]
    assert told(tmp_path, [*both, REPORT], [*both, PAGE], (0,)) is None


def test_nothing_leads_past_the_call(tmp_path: Path) -> None:
    both = [PAGE, PAGE, TELL, PAGE, PAGE]
    assert told(tmp_path, [*both, TELL], [*both, PAGE], ()) is None


def test_no_loop_leads_back(tmp_path: Path) -> None:
    assert told(tmp_path, [REST, REST, LAST], [REST, REST, REST], ()) is None
