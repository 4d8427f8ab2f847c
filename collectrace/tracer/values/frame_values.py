"""What the variables of a frame hold that its code can use in a condition."""

from __future__ import annotations

import json
import time
from types import CodeType, FrameType
from typing import Any, Final

from collectrace.records import FrameValues
from collectrace.tracer.record import sites
from collectrace.tracer.values.plain import PlainValues, attributes_of, is_code, is_namespace
from collectrace.tracer.values.stack import Level
from collectrace.tracer.values.variables import global_variables, local_names, variables

_MOST_LOCALS: Final = 200
_MOST_GLOBALS: Final = 100
_MOST_ATTRIBUTES: Final = 200
"""Values of one frame, by where they are found."""

_MOST_MENTIONED: Final = 1000
"""Names of globals and attributes in the code of a frame that are looked up."""

_DEEPEST: Final = 2
"""Attributes one after the other, as in ``self.args.debug``."""

_FIELDS: Final = {"frame": "", "first_line": 1_000_000, "left_out": 1_000_000, "moved": True}
"""What a frame takes besides its place and its values."""

_NOTHING: Final = object()
"""In place of a value that is not there: another thread may remove it at any moment."""


_SLOWER: Final = 10
"""How much longer than its own time a thread may take: other processes and threads run, too."""


class Budget:
    """The bytes, and the seconds of the calling thread, that the values of one moment may take."""

    def __init__(self, size: int, seconds: float) -> None:
        self._left = size
        self._until = time.thread_time_ns() + int(seconds * 1e9)
        self._at_last = time.monotonic_ns() + int(seconds * _SLOWER * 1e9)

    def allows(self, written: object) -> bool:
        """Return whether there is time left, and room for this; if so, count it."""
        # The text is longer than the line will be: that has no spaces, and nothing is escaped.
        size = len(json.dumps(written))
        if size > self._left or self._is_late():
            return False
        self._left -= size
        return True

    def _is_late(self) -> bool:
        return time.thread_time_ns() > self._until or time.monotonic_ns() > self._at_last


def read_frame(level: Level, plain: PlainValues, budget: Budget) -> FrameValues | None:
    """Return what a frame holds; None: the budget is spent."""
    frame, code = level.frame, level.frame.f_code
    place = f"{sites.line(code, level.lasti)} {code.co_qualname}"
    found = FrameValues(frame=place, first_line=code.co_firstlineno)
    if not budget.allows([place, _FIELDS]):
        return None
    filling = _Filling(found, _mentioned(code), plain, budget)
    filling.add_locals(frame, may_read=level.may_read)
    filling.add_globals(frame)
    if level.may_move and frame.f_lasti != level.lasti:
        found.moved = True
    return found


def _mentioned(code: CodeType) -> list[str]:
    """The names of globals and attributes in a function and in its comprehensions and lambdas."""
    inner = (part for part in code.co_consts if type(part) is CodeType and part.co_name[:1] == "<")
    names = (name for part in (code, *inner) for name in part.co_names)
    return [name for name in dict.fromkeys(names) if _counts(name)]


def _counts(name: str) -> bool:
    """Whether a name is one of the program's: not ``__file__``, nor the ``.0`` of a generator."""
    return not name.startswith((".", "__"))


class _Filling:
    """Enters the values of a frame."""

    def __init__(
        self, found: FrameValues, mentioned: list[str], plain: PlainValues, budget: Budget
    ) -> None:
        self._found, self._plain, self._budget = found, plain, budget
        self._mentioned = mentioned[:_MOST_MENTIONED]
        self._attributes = _MOST_ATTRIBUTES
        self._left_out(len(mentioned) - _MOST_MENTIONED)

    def add_locals(self, frame: FrameType, *, may_read: bool) -> None:
        """Enter the variables of a function, and those of functions around it that it uses."""
        names = [name for name in local_names(frame) if _counts(name)]
        bound = variables(frame, names[:_MOST_LOCALS]) if may_read else None
        self._left_out(len(names) - (0 if bound is None else _MOST_LOCALS))
        for name, x in bound or ():
            self._add(name, x)

    def add_globals(self, frame: FrameType) -> None:
        """Enter the global variables that the code mentions."""
        there = global_variables(frame)
        if there is None or not is_namespace(there):
            self._left_out(len(self._mentioned))
            return
        bound = self._bound(there)
        self._left_out(len(bound) - _MOST_GLOBALS)
        for name, x in bound[:_MOST_GLOBALS]:
            self._add(name, x)

    def _left_out(self, count: int) -> None:
        self._found.left_out += max(0, count)

    def _add(self, name: str, x: Any, depth: int = 0) -> None:
        written = self._plain.written(x)
        if not self._budget.allows({name: written}):
            self._left_out(1)
            return
        self._found.values[name] = written
        if depth < _DEEPEST and not self._plain.has_row(x) and not is_code(x):
            self._add_attributes(name, x, depth + 1)

    def _add_attributes(self, name: str, owner: Any, depth: int) -> None:
        there = attributes_of(owner)
        if not there:
            return
        bound = self._bound(there)
        self._left_out(len(bound) - self._attributes)
        for attribute, x in bound[: self._attributes]:
            self._attributes -= 1
            self._add(f"{name}.{attribute}", x, depth)

    def _bound(self, there: dict[str, Any]) -> list[tuple[str, Any]]:
        """The names in a dictionary that the code mentions, and what to, but for code."""
        found = ((name, there.get(name, _NOTHING)) for name in self._mentioned)
        return [(name, x) for name, x in found if x is not _NOTHING and not is_code(x)]
