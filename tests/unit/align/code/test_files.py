"""Source files of a run: frames find their functions, and no text makes anything raise."""

from __future__ import annotations

from typing import Any

import pytest

from collectrace.align.code import files
from collectrace.align.code.between import Finished, Side
from collectrace.align.code.decide import decide
from collectrace.align.code.files import Files, Frame, Function, Gap
from collectrace.align.code.program import Program
from tests.unit.align.code.standin import Texts

PATH = "/files/program.py"

TEXT = """
def step():
    pass


class Trainer:
    def step(self):
        def inner():
            return [x for x in y]

        hook = lambda: 1
        return hook

    @property
    def size(self):
        return 1
"""


def found(text: str, frame: Frame) -> str | Gap:
    function = Files(Texts(**{PATH: text})).function(0, frame)
    return function.qualified if isinstance(function, Function) else function


@pytest.mark.parametrize(
    ("frame", "qualified"),
    [
        (Frame(PATH, 3, "step"), "step"),
        (Frame(PATH, 15, "size"), "Trainer.size"),  # as the stacks of a stall name it
        (Frame(PATH, 8, "Trainer.step"), "Trainer.step"),
        (Frame(PATH, 9, "Trainer.step.<locals>.inner"), "Trainer.step.<locals>.inner"),
        (Frame(PATH, 11, "Trainer.step.<locals>.<lambda>"), "Trainer.step.<locals>.<lambda>"),
        (Frame(PATH, 16, "Trainer.size", 14), "Trainer.size"),
        (Frame(PATH, 7, "Trainer"), "Trainer"),
        (Frame(PATH, 2, "<module>"), "<module>"),
    ],
)
def test_a_frame_finds_its_function(frame: Frame, qualified: str) -> None:
    assert found(TEXT, frame) == qualified


@pytest.mark.parametrize(
    "frame",
    [
        Frame(PATH, 9, "step"),
        Frame(PATH, 3, "other"),
        Frame(PATH, 3, "step", 1),
        Frame(PATH, 16, "Trainer.size", 15),
        Frame(PATH, 0, "step"),
        Frame(PATH, 10_000, "<module>"),
    ],
)
def test_a_function_that_is_not_there_means_that_the_source_has_changed(frame: Frame) -> None:
    assert found(TEXT, frame) is Gap.CHANGED


@pytest.mark.parametrize(
    "frame",
    [
        Frame("<string>", 1, "<module>"),
        Frame("/tmp/ipykernel_1/2.py", 1, "step"),
        Frame("/lib/packed.zip/module.py", 1, "step"),
        Frame(PATH, 3, "torch_dynamo_resume_in_step_at_3"),
    ],
)
def test_code_without_a_file_has_no_source(frame: Frame) -> None:
    assert found(TEXT, frame) is Gap.NO_SOURCE


HOSTILE = {
    "no Python": "def (",
    "null byte": "x = 1\0",
    "surrogate": "x = '\ud800'",
    "too large": "#" * (files.MOST_BYTES + 1),
    "long line": "x = '" + "a" * 100_000 + "'",
    "parentheses": "(" * 250 + ")" * 250,
    "many unary operators": "\n".join(["x = (", *["not" for _ in range(20_000)], "1)"]),
    "many elif": "if a: pass\n" + "elif a: pass\n" * 3_000,
    "long sum": "x = (\n" + "a +\n" * 20_000 + "a)",
    "long chain of calls": "x = (a\n" + ".b()\n" * 20_000 + ")",
    "empty": "",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_text_makes_a_question_raise(name: str) -> None:
    program = Program(Files(Texts(**{PATH: HOSTILE[name]})))
    frame = Frame(PATH, 1, "<module>")
    answer = decide(program, Side(0, (), (frame,)), Side(1, (), Finished()))
    assert answer.gaps


def test_a_chain_of_elifs_is_not_deep() -> None:
    text = "if a: pass\n" + "elif a: pass\n" * 300 + "def step(): pass\n"
    assert found(text, Frame(PATH, 302, "step")) == "step"


def test_a_file_with_too_many_statements_has_no_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_STATEMENTS", 5)
    assert found(TEXT, Frame(PATH, 3, "step")) is Gap.NO_SOURCE


def test_each_distinct_text_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = []
    parse = files.parse

    def counted(*given: Any) -> Any:
        parsed.append(given)
        return parse(*given)

    monkeypatch.setattr(files, "parse", counted)
    known = Files(Texts(**{PATH: TEXT}))
    assert len({id(known.file(rank, PATH)) for rank in range(4)}) == 1
    assert len(parsed) == 1


class Differing:
    def text(self, rank: int, path: str) -> str | None:
        return TEXT + f"x = {rank}\n"


def test_ranks_that_run_different_text_are_not_compared() -> None:
    frame = Frame(PATH, 3, "step")
    sides = Side(0, (), (frame,)), Side(1, (), Finished())
    assert decide(Program(Files(Differing())), *sides).gaps == {Gap.DIFFERENT}


@pytest.mark.parametrize(
    ("text", "line", "path"),
    [("a.py:3 f", 3, "a.py"), ("my code/a.py:3 f", 3, "my code/a.py"), ("a.py:x f", 0, "a.py"),
     ("", 0, "")],
)  # fmt: skip
def test_a_frame_is_read_from_its_record(text: str, line: int, path: str) -> None:
    frame = Frame.parse(text)
    assert (frame.line, frame.path) == (line, path)
