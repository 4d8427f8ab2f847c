"""The stacks that calls come from. Each is recorded once, with a number to which calls refer."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final

from collectrace.records import Stack
from collectrace.tracer.record.sites import Place
from collectrace.tracer.record.sources import Sources

_MOST: Final = 20_000
"""Stacks remembered. A program that keeps making new ones reaches it; then all are forgotten, and
get new numbers."""


_Key = tuple[str | int, ...]


class Stacks:
    """The stacks of one run.

    ``write`` writes a record. ``lock`` is held meanwhile, as a stack's record must come before the
    calls that refer to it. ``sources``, unless None, gets the new lines.
    """

    def __init__(
        self,
        write: Callable[[Stack], None],
        lock: AbstractContextManager[Any],
        sources: Sources | None,
    ) -> None:
        self.known = 0
        """The highest number so far."""
        self._write = write
        self._lock = lock
        self._sources = sources
        self._numbers: dict[_Key, int] = {}
        self._next = itertools.count(1)

    def number(self, place: Place) -> int | None:
        """Return the number of a place's stack; None: it has only frames of torch.

        Stacks are compared by their text, as new closures look the same to a reader.
        """
        lines = place.user_lines()
        frames = [f"{line.site} {line.function}" for line in lines]
        path = place.path()
        first_lines = [line.first_line for line in lines]
        of_libraries = place.library_lines()
        libraries = [f"{one.inside} {one.site} {one.function}" for one in of_libraries]
        key: _Key = (*frames, "", *path, *first_lines, *libraries)
        found = self._numbers.get(key)
        if found is not None or not (frames or path):
            return found
        with self._lock:
            found = self._numbers.get(key)
            if found is not None:
                return found
            if len(self._numbers) >= _MOST:
                self._numbers.clear()
            # A signal handler may issue a call during this: it gets another number.
            self.known = found = next(self._next)
            stack = Stack(stack=found, frames=frames, path=path, first_lines=first_lines)
            stack.libraries = libraries or None
            self._write(stack)
            self._numbers[key] = found
        if self._sources is not None:
            self._sources.ask([one.site for one in lines])
            self._sources.ask_library([one.site for one in of_libraries])
        return found
