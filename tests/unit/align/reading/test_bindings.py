"""How often a file gives its names a value, and what they are for good."""

from __future__ import annotations

import ast

import pytest

from collectrace.align.reading import bindings

SCRIPT = """\
from parts import take as taken, Rests
STEPS, WIDTH = 3, 4
BUDGET = 2
LIMIT: int = 5
SIZE = read()
class Works:
    def take(self, x): ...
def set_budget(value):
    global BUDGET
    BUDGET = value
def run(rank):
    worker, part = Works(), Works()
    one = Works()
    two = Works()
    two = Rests()
    self.take = rank
    for _ in range(STEPS):
        one.take(rank)
one = Rests()
other = one
"""

FOUND = bindings.of(ast.parse(SCRIPT))


@pytest.mark.parametrize(
    ("name", "times"),
    [("take", 2), ("taken", 1), ("Works", 1), ("BUDGET", 2), ("rank", 1), ("range", 0)],
)
def test_how_often_a_name_is_given_a_value(name: str, times: int) -> None:
    assert FOUND.times(name) == times


def test_numbers_for_good() -> None:
    assert FOUND.numbers == {"STEPS", "WIDTH", "LIMIT"}


@pytest.mark.parametrize(
    ("name", "line", "kind"),
    [("one", 18, "Works"), ("two", 18, ""), ("worker", 18, ""), ("rank", 18, ""), ("one", 20, "")],
    ids=["once in the function", "two classes", "of a tuple", "a parameter", "of all the file"],
)
def test_objects_of_one_class(name: str, line: int, kind: str) -> None:
    assert FOUND.class_of(name, line) == kind


def test_nothing_of_a_file_that_cannot_be_read() -> None:
    none = bindings.Bindings()
    assert (none.times("take"), none.class_of("part", 3), none.numbers) == (0, "", frozenset())
