"""Calls of two ranks of a program, and what is decided between them. Needs no torch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import FrameType
from typing import Final

from collectrace.align.code.between import Finished, Raised, Side
from collectrace.align.code.decide import decide
from collectrace.align.code.decisions import Answer
from collectrace.align.code.files import Files, Frame, Function
from collectrace.align.code.graph import Graph
from collectrace.align.code.places import Agreements
from collectrace.align.code.program import Program, Stack

MOST_FRAMES: Final = 8
"""Of a stack in a record."""


@dataclass(frozen=True)
class Call:
    """A call of a collective."""

    op: str
    stack: Stack
    arguments: tuple[object, ...]


@dataclass
class Run:
    """What one rank did."""

    rank: int
    calls: list[Call] = field(default_factory=list)
    raised: Stack | None = None


def user_stack(frame: FrameType | None, is_user: Callable[[str], bool]) -> Stack:
    """The frames of the program, innermost first, as the tracer records them."""
    found: list[Frame] = []
    while frame is not None and len(found) < MOST_FRAMES:
        code = frame.f_code
        if is_user(code.co_filename):
            found.append(
                Frame(code.co_filename, frame.f_lineno, code.co_qualname, code.co_firstlineno)
            )
        frame = frame.f_back
    return tuple(found)


def difference(runs: Sequence[Run]) -> tuple[Side, Side, bool] | None:
    """The sides of the first call in which two ranks differ, and whether only its arguments do."""
    one, two = runs
    longest = max(len(one.calls), len(two.calls))
    for n in range(longest + 1):
        here = [run.calls[n] if n < len(run.calls) else None for run in runs]
        if here[0] == here[1] and n < longest:
            continue
        if n == longest and one.raised == two.raised:
            return None
        sides = [
            Side(
                run.rank,
                run.calls[n - 1].stack if n else (),
                call.stack if call else Finished() if run.raised is None else Raised(run.raised),
            )
            for run, call in zip(runs, here, strict=True)
        ]
        same = here[0] is not None and here[1] is not None and here[0].stack == here[1].stack
        return sides[0], sides[1], same
    return None


class Texts:
    """The sources of a run, one text for all ranks."""

    def __init__(self, **texts: str) -> None:
        self.texts = texts

    def text(self, rank: int, path: str) -> str | None:
        return self.texts.get(path)


def answer(
    path: str, text: str, sides: tuple[Side, Side], agreements: Agreements | None = None
) -> Answer:
    return decide(Program(Files(Texts(**{path: text}))), *sides, agreements)


def graph_at(program: Program, path: str, line: int) -> tuple[Function, Graph]:
    """The innermost function at a line, and its graph."""
    file = program.files.file(0, path)
    assert file is not None
    around = (one for one in file.functions if one.first <= line <= one.last)
    function = max(around, key=lambda one: one.first)
    graph = program.graph(function)
    assert graph is not None
    return function, graph


def traced(error: BaseException, is_user: Callable[[str], bool]) -> Stack:
    """Where an exception was raised, as the tracer records it."""
    frames = []
    traceback = error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if is_user(code.co_filename):
            line = traceback.tb_lineno
            frames.append(Frame(code.co_filename, line, code.co_qualname, code.co_firstlineno))
        traceback = traceback.tb_next
    return tuple(reversed(frames))


def marked(text: str, mark: str = "# WAY") -> set[int]:
    return {
        n for n, line in enumerate(text.split("\n"), 1) if line.endswith(mark) or f"{mark} " in line
    }


def small(text: str, path: str = "/small/program.py") -> list[Run]:
    """Run a small program on two ranks: ``odd()`` is true on rank 1, ``all_reduce()`` a call."""
    runs = []
    for rank in (0, 1):
        run = Run(rank)

        def emit(*arguments: object, run: Run = run) -> None:
            stack = user_stack(sys._getframe(1), path.__eq__)
            run.calls.append(Call("all_reduce", stack, arguments))

        names: dict[str, object] = {
            "__name__": "__main__", "all_reduce": emit, "odd": bool(rank).__bool__, "rank": rank,
        }  # fmt: skip
        try:
            # In a thread of its own: an event loop may run in this one, for a browser's sake.
            with ThreadPoolExecutor(1) as pool:
                pool.submit(exec, compile(text, path, "exec"), names).result()
        except SystemExit:
            pass
        except Exception as error:  # noqa: BLE001  the program's own
            run.raised = traced(error, path.__eq__)
        runs.append(run)
    return runs


def decided(text: str, agreements: Agreements | None = None) -> Answer:
    """What decided between the ranks of a small program."""
    path = "/small/program.py"
    found = difference(small(text, path))
    assert found is not None, "the ranks do not differ"
    return answer(path, text, found[:2], agreements)
