"""Read the values of a frame's variables that its code can use in a condition."""

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
"""Values of one frame, by their kind."""

_MOST_MENTIONED: Final = 1000
"""Names of globals and attributes in the code of a frame that are looked up."""

_DEEPEST: Final = 2
"""Length of a chain of attributes: 2 for ``self.args.debug``."""

_FIELDS: Final = {"frame": "", "first_line": 1_000_000, "left_out": 1_000_000, "moved": True}
"""The fields of a frame besides its place and its values, to estimate their size."""

_NOTHING: Final = object()
"""Replaces a missing value: another thread may remove one at any moment."""


_SLOWER: Final = 10
"""Ratio of wall time to thread time that is allowed, as other processes and threads run, too."""


class Budget:
    """The bytes, and the seconds of thread time, that one reading of values may take."""

    def __init__(self, size: int, seconds: float) -> None:
        self._left = size
        self._until = time.thread_time_ns() + int(seconds * 1e9)
        self._at_last = time.monotonic_ns() + int(seconds * _SLOWER * 1e9)

    def allows(self, written: object) -> bool:
        """Return whether time is left, and room for this value; if so, count its bytes."""
        # An upper bound: the line will have no spaces and no escapes.
        size = len(json.dumps(written))
        if size > self._left or self._is_late():
            return False
        self._left -= size
        return True

    def _is_late(self) -> bool:
        return time.thread_time_ns() > self._until or time.monotonic_ns() > self._at_last


def read_frame(level: Level, plain: PlainValues, budget: Budget) -> FrameValues | None:
    """Return the values of a frame; None: the budget is spent."""
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
    """Return the names of globals and attributes in a function, its comprehensions and lambdas."""
    inner = (part for part in code.co_consts if type(part) is CodeType and part.co_name[:1] == "<")
    names = (name for part in (code, *inner) for name in part.co_names)
    return [name for name in dict.fromkeys(names) if _counts(name)]


def _counts(name: str) -> bool:
    """Return whether the program chose a name: not ``__file__``, nor the ``.0`` of a generator."""
    return not name.startswith((".", "__"))


class _Filling:
    """Adds the values of a frame to its record."""

    def __init__(
        self, found: FrameValues, mentioned: list[str], plain: PlainValues, budget: Budget
    ) -> None:
        self._found, self._plain, self._budget = found, plain, budget
        self._mentioned = mentioned[:_MOST_MENTIONED]
        self._attributes = _MOST_ATTRIBUTES
        self._left_out(len(mentioned) - _MOST_MENTIONED)

    def add_locals(self, frame: FrameType, *, may_read: bool) -> None:
        """Add the variables of a function, and those that it uses of functions around it."""
        names = [name for name in local_names(frame) if _counts(name)]
        bound = variables(frame, names[:_MOST_LOCALS]) if may_read else None
        self._left_out(len(names) - (0 if bound is None else _MOST_LOCALS))
        for name, x in bound or ():
            self._add(name, x)

    def add_globals(self, frame: FrameType) -> None:
        """Add the global variables that the code mentions."""
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
        """Return the items of a dictionary that the code mentions, without functions and such."""
        found = ((name, there.get(name, _NOTHING)) for name in self._mentioned)
        return [(name, x) for name, x in found if x is not _NOTHING and not is_code(x)]
