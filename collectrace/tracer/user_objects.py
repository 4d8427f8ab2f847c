"""Asks objects of the program what Python itself knows of them, and runs no code of theirs.

A metaclass can have a ``__name__`` of its own, an exception a ``__traceback__``, any object a
``__class__``: as attributes they may raise, or be something else.
"""

from __future__ import annotations

import weakref
from types import TracebackType
from typing import Any, Final, Generic, TypeGuard, TypeVar

_Kind = TypeVar("_Kind")
_Value = TypeVar("_Value")

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


class ByObject(Generic[_Value]):
    """What is known of objects that live, by which object it is.

    ``weakref.WeakKeyDictionary`` asks them for their hash, and whether they are equal.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], _Value]] = {}

    def get(self, thing: object) -> _Value | None:
        """Return what is known of an object; None if nothing."""
        found = self._known.get(id(thing))
        return None if found is None else found[1]

    def __setitem__(self, thing: object, value: _Value) -> None:
        """Note something of an object, which must be one that weak references can refer to."""
        known, key = self._known, id(thing)
        # No other gets its id before this has run.
        known[key] = weakref.ref(thing, lambda _: known.pop(key, None)), value

    def references(self) -> list[weakref.ref[Any]]:
        """Return a reference to each, in the order in which they came to be known."""
        return [reference for reference, _ in list(self._known.values())]

    def clear(self) -> None:
        """Forget all."""
        self._known.clear()
