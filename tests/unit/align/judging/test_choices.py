"""What may leave a call out of a round: also a line that may call other functions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from collectrace.align.judging import choices
from collectrace.align.judging.case import Case
from collectrace.records import Stack
from tests.support.judging import case_of
from tests.support.synthetic import Run

SCRIPT = """\
from parts import ask
BUDGET, STEPS = 2, 3
class Silent(Exception): ...
class Works:
    def take(self, x):
        recv(x)
    def learn(self, x):
        recv(x)
class Rests:
    def take(self, x):
        pass
def busy(x):
    recv(x)
def chosen(x):
    recv(x)
def main(x, chosen):
    global BUDGET
    worker, part = Works(), Works()
    only = Works()
    for _ in range(9):
        BUDGET = plan()
        PARTS[kind](x)
        list(map(busy, x))
        busy(x)
        chosen(x)
        part.take(x)
        only.take(x)
        part.learn(x)
        ask(x)
        parts.tell(x)
        for _ in range(BUDGET):
            recv(x)
        for _ in range(STEPS):
            recv(x)
        try:
            send(load())
        except (OSError, ValueError) as problem:
            pass
        try:
            send(load())
        except Silent:
            pass
        last(x)
"""
PARTS = """\
def ask(x):
    recv(x)
def tell(x):
    recv(x)
"""


def case_with(folder: Path, *files: Path) -> Case:
    """A run of two ranks, of which one has been in each of these files."""
    run = Run(2)
    run.rank(0).record(Stack(stack=1, frames=[f"{file}:1 <module>" for file in files]))
    return case_of(run, folder / "logs")


def past(folder: Path, line: int, *inner: str) -> Sequence[str] | None:
    """What leads past a call at a line of main(), or by it, to the last call of the turn."""
    script, parts = folder / "train.py", folder / "parts.py"
    script.write_text(SCRIPT)
    parts.write_text(PARTS)
    files = {"ask": parts, "tell": parts}
    call = [f"{files.get(one.split()[1], script)}:{one}" for one in inner]
    case = case_with(folder, script, parts)
    return choices.of_call(case, [*call, f"{script}:{line} main"], [f"{script}:43 main"])


@pytest.mark.parametrize(
    ("line", "inner"),
    [(24, "13 busy"), (27, "6 Works.take"), (28, "8 Works.learn"), (29, "2 ask"), (30, "4 tell")],
    ids=["a function", "of one class", "the only such method", "imported", "of a module"],
)
def test_a_line_that_calls_one_function(line: int, inner: str, tmp_path: Path) -> None:
    assert past(tmp_path, line, inner) == []


@pytest.mark.parametrize(
    ("line", "inner"),
    [(22, "13 busy"), (23, "13 busy"), (25, "15 chosen"), (26, "6 Works.take")],
    ids=["by a table", "by map()", "a parameter has its name", "of one of two classes"],
)
def test_a_line_that_may_call_another(line: int, inner: str, tmp_path: Path) -> None:
    assert past(tmp_path, line, inner) is None


@pytest.mark.parametrize(
    ("other", "is_known"),
    [
        ("from train import Works\nclass Idle(Works):\n    def learn(self, x): pass\n", False),
        ("class Idle:\n    def learn(self, x): pass\n", True),
        ("from train import Works\nclass Idle(Works):\n    def rest(self, x): pass\n", True),
    ],
    ids=["derived", "of its own", "another method"],
)
def test_a_method_that_a_class_of_another_file_may_have(
    other: str, is_known: bool, tmp_path: Path
) -> None:
    """It is imported by one in which calls are made."""
    files = [tmp_path / name for name in ("train.py", "parts.py", "idle.py")]
    for file, text in zip(files, (SCRIPT, f"{PARTS}from idle import Idle\n", other), strict=True):
        file.write_text(text)
    script = files[0]
    call = [f"{script}:8 Works.learn", f"{script}:28 main"]
    case = case_with(tmp_path, *files)
    found = choices.of_call(case, call, [f"{script}:43 main"])
    assert found == ([] if is_known else None)


def test_loops_that_go_so_often_whatever_comes(tmp_path: Path) -> None:
    assert past(tmp_path, 32) == ["31         for _ in range(BUDGET):"]
    assert past(tmp_path, 34) == []


@pytest.mark.parametrize(("line", "of_errors"), [(36, True), (40, False)])
def test_handlers_that_take_errors_alone(line: int, of_errors: bool, tmp_path: Path) -> None:
    found = past(tmp_path, line)
    assert found is not None
    (way,) = found
    case = case_with(tmp_path, tmp_path / "train.py")
    stack = [f"{tmp_path / 'train.py'}:{line} main"]
    assert choices.is_error_handler(case, way, stack) is of_errors


@pytest.mark.parametrize(
    ("way", "of_errors"),
    [
        ("7 return except OSError:", True),
        ("7 pass except json.JSONDecodeError as problem:", True),
        ("7 continue except:", False),
        ("7 continue except (OSError, Exception):", False),
        ("7 continue if except_last:", False),
        ("7 continue", False),
        ("7 except OSError:", False),
        ("7 except:", False),
        ("7 finally:", False),
        ("", False),
    ],
)
def test_what_is_a_handler_of_errors(way: str, of_errors: bool, tmp_path: Path) -> None:
    """What stands around a call, as ``number text``, is none."""
    assert choices.is_error_handler(case_of(Run(2), tmp_path), way, []) is of_errors
