"""Asks objects of the program what Python itself knows of them, and runs no code of theirs.

A metaclass can have a ``__name__`` of its own, an exception a ``__traceback__``, any object a
``__class__``: as attributes they may raise, or be something else.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Final, TypeGuard, TypeVar

_Kind = TypeVar("_Kind")

_LONGEST_NAME: Final = 1000
"""Characters of the name of a type."""

_name_of: Final = vars(type)["__name__"].__get__
_order_of: Final = vars(type)["__mro__"].__get__
_attributes_of: Final = vars(type)["__dict__"].__get__
_traceback_of: Final = vars(BaseException)["__traceback__"].__get__
_arguments_of: Final = vars(BaseException)["args"].__get__
_cause_of: Final = vars(BaseException)["__cause__"].__get__
_context_of: Final = vars(BaseException)["__context__"].__get__
_hides_context: Final = vars(BaseException)["__suppress_context__"].__get__


def type_name(thing: object) -> str:
    """Return the name of an object's type."""
    return str.__getitem__(_name_of(type(thing)), slice(_LONGEST_NAME))


def is_a(thing: object, kind: type[_Kind]) -> TypeGuard[_Kind]:
    """Whether an object's type is this one or derives from it."""
    return any(cls is kind for cls in _order_of(type(thing)))


def class_attribute(thing: object, name: str) -> object:
    """Return what the classes of an object define under a name; None if nothing."""
    for cls in _order_of(type(thing)):
        attributes = _attributes_of(cls)
        if name in attributes:
            found: object = attributes[name]
            return found
    return None


def traceback_of(problem: BaseException) -> TracebackType | None:
    """Return the traceback of an exception."""
    found: TracebackType | None = _traceback_of(problem)
    return found


def context_of(problem: BaseException) -> BaseException | None:
    """Return the exception that was being handled when another was raised."""
    found: BaseException | None = _context_of(problem)
    return found


def cause_of(problem: BaseException) -> BaseException | None:
    """Return the exception that a traceback shows as the reason of another."""
    found: BaseException | None = _cause_of(problem)
    if found is None and not _hides_context(problem):
        found = context_of(problem)
    return found


def arguments_of(problem: BaseException) -> tuple[Any, ...]:
    """Return what an exception was made from."""
    found: tuple[Any, ...] = _arguments_of(problem)
    return found
