"""Exceptions and other objects that do the worst when they are asked for a text."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, NoReturn

LONG: Final = 100_000_000


class Raises(Exception):
    def __str__(self) -> NoReturn:
        raise ValueError(self.args[0] / 0)


class Exits(Exception):
    def __str__(self) -> NoReturn:
        sys.exit(7)


class Interrupts(Exception):
    def __str__(self) -> NoReturn:
        raise KeyboardInterrupt


class NoString(Exception):
    def __str__(self) -> Any:
        return 3


class Recurses(Exception):
    def __str__(self) -> str:
        return f"{self}"


class Long(Exception):
    def __str__(self) -> str:
        return "x" * LONG


class Text(str):
    """Looks like a string until one is needed."""

    __slots__ = ()

    def __getitem__(self, key: object) -> NoReturn:
        raise IndexError(key)

    def __len__(self) -> NoReturn:
        raise TypeError

    def __format__(self, spec: str) -> NoReturn:
        raise TypeError(spec)


class Subclass(Exception):
    def __str__(self) -> str:
        return Text("a subclass")


class NoAttributes(Exception):
    """Has nothing of what any exception has."""

    def __getattribute__(self, name: str) -> NoReturn:
        raise RuntimeError(name)


class Meta(type):
    @property
    def __name__(cls) -> NoReturn:  # type: ignore[override]
        raise ValueError("no name")

    def __getattribute__(cls, name: str) -> Any:
        if name == "__subclasses__":  # which Dask looks up in every exception class
            return type.__getattribute__(cls, name)
        raise RuntimeError(name)

    def __eq__(cls, other: object) -> NoReturn:
        raise RuntimeError

    __hash__ = type.__hash__


class NoName(Exception, metaclass=Meta):
    def __str__(self) -> NoReturn:
        raise ValueError("no text")


KINDS: Final[dict[str, Callable[[], Exception]]] = {
    "Raises": lambda: Raises(1),
    "Exits": Exits,
    "Interrupts": Interrupts,
    "NoString": NoString,
    "Recurses": Recurses,
    "Long": Long,
    "Subclass": Subclass,
    "NoAttributes": NoAttributes,
    "NoName": NoName,
}
"""By the names of their types."""


def of(kind: str) -> Exception:
    """An exception of this type."""
    return KINDS[kind]()


class Worker(threading.Thread):
    """A thread that has no name to tell, and another number."""

    ident = 7

    @property
    def name(self) -> NoReturn:  # type: ignore[override]
        raise ValueError("no name")


class Odd:
    """An argument of the command line, say."""

    def __str__(self) -> NoReturn:
        raise ValueError("no text")

    def __bool__(self) -> NoReturn:
        raise ValueError("neither")


def chained(problem: Exception) -> tuple[Exception, TracebackType | None]:
    """An exception that was raised from another, and its traceback."""

    def fail() -> NoReturn:
        raise problem

    try:
        try:
            fail()
        except type(problem) as first:
            raise LookupError("then") from first
    except LookupError as second:
        return second, second.__traceback__
