"""Lines in an ``else``: as records have them, old ones too, and as the file has them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from collectrace.align.reading import arms, code_lines, statements
from tests.support.code import code_of

PROGRAM = """\
def step(rank, batches, left):
    if rank == 0:
        one()
    else:
        if left:
            two()
        else: three()
    if rank == 0:
        if left:
            four()
        else:
            five()
    elif left:
        six()
    elif all_reduce(seven):
        pass
    else:
        eight()
    for batch in batches:
        if left:
            break
    else:
        nine()
    try:
        ten()
    except OSError:
        eleven()
    else:
        twelve()
    while left:
        thirteen()
    if (rank and
            left):
        pass
    else:
        fourteen()
"""

AROUND = {
    "one()": ["2 if rank == 0:"],
    "two()": ["4 else of line 2: if rank == 0:", "5 if left:"],
    "three()": ["4 else of line 2: if rank == 0:", "7 else of line 5: if left:"],
    "four()": ["8 if rank == 0:", "9 if left:"],
    "five()": ["8 if rank == 0:", "11 else of line 9: if left:"],
    "six()": ["13 else of line 8: if rank == 0:", "13 elif left:"],
    "seven": ["15 else of line 8: if rank == 0:", "15 else of line 13: elif left:"],
    "eight()": [
        "17 else of line 8: if rank == 0:",
        "17 else of line 13: elif left:",
        "17 else of line 15: elif all_reduce(seven):",
    ],
    "nine()": ["22 else of line 19: for batch in batches:"],
    "ten()": [],
    "eleven()": ["26 except OSError:"],
    "twelve()": [],
    "thirteen()": ["30 while left:"],
    "fourteen()": ["35 else of line 32: if (rank and"],
}


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    return path


def number(text: str) -> int:
    return next(n for n, line in enumerate(PROGRAM.splitlines(), start=1) if text in line)


def around_line(script: Path, text: str) -> Sequence[str]:
    return code_of(script).at(f"{script}:{number(text)}").statements


def shown(lines: Sequence[str]) -> list[str]:
    """The conditions, without their margins."""
    parts = (line.partition(" ") for line in statements.branches(lines))
    return [f"{head} {rest.strip()}" for head, _, rest in parts]


@pytest.mark.parametrize(("text", "around"), AROUND.items())
def test_the_conditions_around_a_line(text: str, around: list[str], script: Path) -> None:
    assert shown(around_line(script, text)) == around


def test_the_loop_whose_else_it_is_in_is_none_around_it(script: Path) -> None:
    assert statements.loops(around_line(script, "nine()")) == []
    assert statements.loops(around_line(script, "thirteen()")) != []


def test_the_rank_is_asked_for_in_an_else_too(script: Path) -> None:
    found = around_line(script, "two()")[1]
    assert found == "4     else of line 2: if rank == 0:"
    assert statements.asks(found) == "rank"
    assert code_lines.is_fork(code_of(script), f"{script}:6", found)


def test_a_comment_of_the_condition_decides_nothing() -> None:
    lines = ["2 if left:  # rank 0 alone", "4 else:", "5     reduce()"]
    assert arms.told(lines)[0] == "4 else of line 2: if left:  # rank 0 alone"
    assert statements.asks(arms.told(lines)[0]) == ""


def test_what_is_in_no_else_stays_as_it_is() -> None:
    lines = ["1 def step():", "2     if rank == 0:", "3         for x in y:", "4             go()"]
    assert arms.told(lines) == lines
    assert arms.told([]) == []


@pytest.mark.parametrize(
    ("text", "contrary"),
    [
        ("else of line 11: if rank == 0:", (11, "if rank == 0:")),
        ("if rank == 0:", None),
        ("else:", None),
    ],
)
def test_which_condition_is_meant(text: str, contrary: tuple[int, str] | None) -> None:
    assert arms.contrary(text) == contrary
