"""Which assignments gave a condition's names their values, by the source."""

from __future__ import annotations

import ast

import pytest

from collectrace.align.reading.given import Given, described

PROGRAM = """\
import time
limit = 60
twice = 1
twice = 2
main = get_rank() == 0
def step(start, self):
    elapsed = time.time() - start
    over = elapsed > limit and not twice
    if over:
        stop()
    over = False
    while over:
        over = again()
    if main and over:
        self.left: int = count(over)
        if self.left > 1:
            first, second = pair(
                self.left)
            if second:
                pass
    if unknown and stop(first):
        pass
    def inner():
        if elapsed:
            over = 1
        if (over :=
                over):
            pass
    total = 0
    total += elapsed
    if total:
        pass
if twice:
    limit = 0
class Run:
    ready = main
    if ready:
        pass
"""


def given(text: str) -> list[str]:
    lines = PROGRAM.splitlines()
    head = next(n for n, line in enumerate(lines, start=1) if line.strip() == text)
    found = Given(ast.parse(PROGRAM)).of(head)
    return [lines[n - 1].strip() for n in found]


@pytest.mark.parametrize(
    ("condition", "assignments"),
    [
        ("if over:", ["over = elapsed > limit and not twice", "elapsed = time.time() - start"]),
        ("while over:", ["over = False"]),
        ("if main and over:", ["main = get_rank() == 0", "over = again()"]),
        ("if self.left > 1:", ["self.left: int = count(over)", "over = again()"]),
        ("if second:", ["first, second = pair(", "self.left: int = count(over)", "over = again()"]),
        ("if unknown and stop(first):", ["first, second = pair(", "self.left: int = count(over)",
                                         "over = again()"]),
        ("if elapsed:", []),
        ("if total:", ["total += elapsed", "elapsed = time.time() - start"]),
        ("if twice:", ["twice = 2"]),
        ("if ready:", ["ready = main", "main = get_rank() == 0"]),
        ("pass", []),
    ],
)  # fmt: skip
def test_the_assignments_behind_a_condition(condition: str, assignments: list[str]) -> None:
    assert given(condition) == assignments


def test_assignments_that_lead_in_a_circle_end() -> None:
    found = Given(ast.parse("a = b\nb = a\na = b\nwhile a:\n    pass\n")).of(4)
    assert found == [3, 2, 1]


def test_no_further_than_three() -> None:
    text = "".join(f"x{n} = x{n - 1}\n" for n in range(1, 9)) + "if x8:\n    pass\n"
    assert Given(ast.parse(text)).of(9) == [8, 7, 6]


def test_as_a_record_has_it() -> None:
    assert described(3, 1, ["    stop = now() > end  \n"], 12) == "3 1 stop = now()"
