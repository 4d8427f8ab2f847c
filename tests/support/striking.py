"""Make one step of the tracer fail: a function of ours, or a C function that one of ours calls.

By a profile function, which sees every call and return of Python and of C, and whose exceptions
arrive in the program as if the step itself had raised them.
"""

from __future__ import annotations

import ast
import contextlib
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, Final

import collectrace

ROOT: Final = f"{Path(collectrace.__file__).parent}/"
LIBRARY: Final = f"{Path(contextlib.__file__).parent}/"
"""Of Python, between whose frames ours may stand: a context manager's, a thread's."""

CALL: Final = "call"
RETURN: Final = "return"
C_CALL: Final = "c_call"
C_RETURN: Final = "c_return"

DOORS: Final = {
    "__init__.py step", "__init__.py _disable",
    "tracer/switch.py step", "tracer/switch.py current", "tracer/switch.py disable",
    "tracer/patches/steps.py step", "tracer/patches/scoping.py telling",
    "tracer/record/works.py _gone", "tracer/record/scopes.py __init__",
}  # fmt: skip
"""Functions that the program calls by itself, or Python does: they have too little in them to fail,
and nothing is around them that could take an exception."""

UNFAILING: Final = {
    "RLock.__enter__", "RLock.__exit__", "RLock.release", "lock.__exit__", "lock.release",
    "monotonic", "monotonic_ns", "get_ident", "get_native_id", "close",
}  # fmt: skip
"""C functions that cannot fail, or after which nothing could go on if they did."""

ERRORS: Final[dict[str, type[BaseException]]] = {
    error.__name__: error for error in (RuntimeError, MemoryError, OSError, KeyboardInterrupt)
}


@dataclass(frozen=True, order=True)
class Step:
    """Something that a function of ours does: it is called, it returns, or it calls C."""

    file: str
    """Below the package's folder."""
    line: int
    """Of the function; of the call, where it calls C."""
    function: str
    event: str
    what: str = ""
    """Name of the C function."""
    is_main: bool = True
    """The main thread does it."""

    def __str__(self) -> str:
        name = f" {self.what}()" if self.what else ""
        return f"{self.file}:{self.line} {self.function} {self.event}{name}"

    @property
    def is_outermost(self) -> bool:
        """Whether nothing of ours could take the exception: the step is that of a guard itself."""
        bounds = _guards(self.file).get((self.function, self.line))
        if self.what in UNFAILING or f"{self.file} {self.function}" in DOORS:
            return True
        if self.event in (CALL, RETURN):
            return bounds is not None
        return any(
            first <= self.line <= last and not low <= self.line <= high
            for (name, _), (first, last, low, high) in _guards(self.file).items()
            if name == self.function
        )


def _step(frame: FrameType, event: str, argument: Any) -> Step | None:
    code = frame.f_code
    if not code.co_filename.startswith(ROOT):
        return None
    is_main = threading.current_thread() is threading.main_thread()
    file = code.co_filename.removeprefix(ROOT)
    if event in (CALL, RETURN):
        # Nobody of ours could take an exception of one that torch or a thread has called.
        if not _is_called_by_us(frame):
            return None
        return Step(file, code.co_firstlineno, code.co_name, event, "", is_main)
    if event in (C_CALL, C_RETURN):
        name = getattr(argument, "__qualname__", "?")
        return Step(file, frame.f_lineno, code.co_name, event, name, is_main)
    return None


def _is_called_by_us(frame: FrameType) -> bool:
    above = frame.f_back
    while above is not None and above.f_code.co_filename.startswith((LIBRARY, "<")):
        if "site-packages" in above.f_code.co_filename:
            return False
        above = above.f_back
    return above is not None and above.f_code.co_filename.startswith(ROOT)


@contextmanager
def seen() -> Iterator[dict[Step, int]]:
    """Every step that is taken in the block, and how often."""
    found: dict[Step, int] = {}

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        step = _step(frame, event, argument)
        if step is not None:
            found[step] = found.get(step, 0) + 1

    with _profiled(profile):
        yield found


class Strike:
    """Whether the step was reached."""

    def __init__(self) -> None:
        self.count = 0
        self.has_struck = False


@contextmanager
def struck(step: Step, nth: int, error: type[BaseException]) -> Iterator[Strike]:
    """Have a step raise when it is taken for the nth time, and only then."""
    strike = Strike()
    name = step.file.rpartition("/")[2]

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if event != step.event or not frame.f_code.co_filename.endswith(name):
            return
        if strike.has_struck or _step(frame, event, argument) != step:
            return
        strike.count += 1
        if strike.count == nth:
            strike.has_struck = True
            raise error("injected")

    with _profiled(profile):
        yield strike


@contextmanager
def _profiled(profile: Any) -> Iterator[None]:
    before = threading.getprofile()
    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(before)


@cache
def _guards(file: str) -> dict[tuple[str, int], tuple[int, int, int, int]]:
    """The functions of a file whose work is one block that no exception leaves.

    By name and first line: the lines of the function, and those of the block.
    """
    found = {}
    for node in ast.walk(ast.parse(Path(ROOT, file).read_text())):
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            blocks = [one for one in node.body if _is_guard(one)]
            if blocks:
                block = blocks[-1]
                bounds = node.lineno, node.end_lineno or 0, block.lineno, block.end_lineno or 0
                found[node.name, first] = bounds
    return found


def _is_guard(node: ast.stmt) -> bool:
    if isinstance(node, ast.Try):
        caught = [ast.unparse(one.type) for one in node.handlers if one.type is not None]
        return "Exception" in caught or "BaseException" in caught
    if isinstance(node, ast.If):
        return any(map(_is_guard, node.body))
    if isinstance(node, ast.With):
        return any("contained(" in ast.unparse(one.context_expr) for one in node.items)
    return False
