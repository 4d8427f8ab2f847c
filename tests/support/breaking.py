"""Errors inside collectrace, made at will: some function of ours raises when it is called."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

import collectrace

ROOT = Path(collectrace.__file__).parent


@contextmanager
def called(*rooms: str) -> Iterator[dict[CodeType, None]]:
    """The functions of some rooms that are called, in the order of their first calls."""
    folders = tuple(f"{ROOT}/{room}/" for room in rooms)
    found: dict[CodeType, None] = {}

    def trace(frame: FrameType, event: str, argument: object) -> None:
        # A generator is called again where it is closed, and whatever it raises then is lost.
        is_plain = not frame.f_code.co_flags & inspect.CO_GENERATOR
        if is_plain and frame.f_code.co_filename.startswith(folders):
            found.setdefault(frame.f_code)

    with _traced(trace):
        yield found


@contextmanager
def broken(function: CodeType, problem: Exception) -> Iterator[None]:
    """The first call of a function raises."""

    def trace(frame: FrameType, event: str, argument: object) -> None:
        if frame.f_code is function:
            raise problem

    with _traced(trace):
        yield


def name(function: CodeType) -> str:
    """``align/causes/choose.py cause_of``."""
    return f"{Path(function.co_filename).relative_to(ROOT)} {function.co_name}"


@contextmanager
def _traced(trace: object) -> Iterator[None]:
    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]  # it traces no lines, and so returns nothing
    try:
        yield
    finally:
        sys.settrace(before)
