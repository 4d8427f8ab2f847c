"""Read Python's own data about objects of the program, without running the program's code.

A metaclass can define ``__name__``, an exception class ``__traceback__``, any class ``__class__``.
Read as attributes, they may raise or return anything.
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
    """Return whether an object's type is this one or derives from it."""
    return any(cls is kind for cls in _order_of(type(thing)))


def class_attribute(thing: object, name: str) -> object:
    """Return the attribute that the classes of an object define; None: they define none."""
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
    """Return the exception that was being handled when this one was raised; None: none was."""
    found: BaseException | None = _context_of(problem)
    return found


def cause_of(problem: BaseException) -> BaseException | None:
    """Return the exception that a traceback shows as the cause of this one; None: there is none."""
    found: BaseException | None = _cause_of(problem)
    if found is None and not _hides_context(problem):
        found = context_of(problem)
    return found


def arguments_of(problem: BaseException) -> tuple[Any, ...]:
    """Return the arguments of an exception (``args``)."""
    found: tuple[Any, ...] = _arguments_of(problem)
    return found


class ByObject(Generic[_Value]):
    """A dictionary with living objects as keys, which are compared by identity.

    ``weakref.WeakKeyDictionary`` would call their ``__hash__`` and ``__eq__``.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], _Value]] = {}

    def get(self, thing: object) -> _Value | None:
        """Return the value of an object; None: it has none."""
        found = self._known.get(id(thing))
        return None if found is None else found[1]

    def __setitem__(self, thing: object, value: _Value) -> None:
        """Set the value of an object, which must support weak references."""
        known, key = self._known, id(thing)
        # The callback runs before another object can get the same id.
        known[key] = weakref.ref(thing, lambda _: known.pop(key, None)), value

    def references(self) -> list[weakref.ref[Any]]:
        """Return a weak reference to each object, in the order of insertion."""
        return [reference for reference, _ in list(self._known.values())]

    def clear(self) -> None:
        """Remove all objects."""
        self._known.clear()
