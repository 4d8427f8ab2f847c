"""Write values as plain data, without running any code of their classes.

Everything is decided by ``type(x)`` and by the identity of classes. ``isinstance`` may run
``__class__``, a dictionary with types as keys runs the ``__hash__`` of their metaclass, and a
property runs anything. A value without a row below is written as the name of its type.
"""

from __future__ import annotations

import ctypes
import math
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from enum import Enum
from hashlib import blake2b
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Final

from collectrace.tracer.user_objects import is_a, type_name

Written = bool | int | float | dict[str, Any] | None
"""A number, a truth value or None itself; for all others, an object with the ``type``."""

Row = Callable[[Any], Written]
"""Returns what is written for a value of exactly one type."""

MOST_TEXT: Final = 100
"""Characters of a name."""

_MOST_SHOWN: Final = 1000
"""Characters of a string that is written in full."""

_MOST_HASHED: Final = 4096
"""Characters of a string that are hashed; in a longer string, half of them are from its end."""

_HASH_BYTES: Final = 2

_JSON_BITS: Final = 63
"""Bits of integers that every JSON reader accepts."""

_MOST_BITS: Final = 128
"""An integer with more bits is written without its digits."""

_MOST_KEYS: Final = 20_000
"""Keys of a dictionary that may be read, as each key must be checked first."""

_generic_dict: Final = ctypes.pythonapi.PyObject_GenericGetDict
# Not `x.__dict__` or `object.__getattribute__`: a class may have a property of that name.
_generic_dict.argtypes = [ctypes.py_object, ctypes.c_void_p]
_generic_dict.restype = ctypes.py_object

_KEY: Final = {id(str)}


def name_of(x: object) -> str:
    """Return the name of an object's type."""
    return type_name(x)[:MOST_TEXT]


def is_code(x: object) -> bool:
    """Return whether ``x`` is a function, a class or a module."""
    kind = type(x)
    return any(kind is one for one in _CODE) or is_a(x, type)


_CODE: Final = (FunctionType, BuiltinFunctionType, MethodType, ModuleType)


def is_namespace(found: object) -> bool:
    """Return whether a look-up in ``found`` runs no code of the program.

    A subclass of ``dict`` could run some, and so could a key that is not a plain string.
    """
    if type(found) is not dict or len(found) > _MOST_KEYS:
        return False
    return set(map(id, map(type, found))) <= _KEY


def attributes_of(x: object) -> dict[str, Any] | None:
    """Return the instance dictionary of an object; None: it has none that can be read safely."""
    try:
        # As a py_object, as ctypes would look up `_as_parameter_` in any other object.
        found = _generic_dict(ctypes.py_object(x), None)
    except AttributeError:
        return None
    return found if is_namespace(found) else None


def number(x: complex) -> bool | int | float | str | None:
    """Return a number of an exact built-in type as a JSON value; None: it is too large.

    ``nan``, ``inf``, complex numbers and integers of more than 63 bits become text.
    """
    kind = type(x)
    if kind is int:
        bits = int.bit_length(x)  # type: ignore[arg-type]
        if bits > _JSON_BITS:
            return str(x) if bits <= _MOST_BITS else None
        return x  # type: ignore[return-value]
    if kind is float and not math.isfinite(x):  # type: ignore[arg-type]
        return str(x)
    return x if kind is bool or kind is float else repr(x)  # type: ignore[return-value]


def typed_number(kind: str, x: complex) -> dict[str, Any]:
    """Return an object for a number of a type with this name."""
    value = number(x)
    return {"type": kind} if value is None else {"type": kind, "value": value}


class PlainValues:
    """Writes values, for one reading of the threads.

    ``key`` is for the hashes of strings; None: there are no hashes. ``shows_text``: strings are
    written in full. ``rows`` are for further types, by the type's ``id``.
    """

    def __init__(
        self, key: bytes | None, *, shows_text: bool = False, rows: Mapping[int, Row] | None = None
    ) -> None:
        self._key, self._shows_text = key, shows_text
        self._rows: dict[int, Row] = {**_ROWS, id(str): self._text, **(rows or {})}

    def written(self, x: object) -> Written:
        """Return what is written for a value."""
        kind = type(x)
        row = self._rows.get(id(kind))
        if row is not None:
            return row(x)
        return _member(x) if is_a(x, Enum) else {"type": name_of(x)}

    def has_row(self, x: object) -> bool:
        """Return whether there is a row for exactly the type of ``x``."""
        return id(type(x)) in self._rows

    def _text(self, x: str) -> Written:
        found: dict[str, Any] = {"type": "str", "len": len(x)}
        if self._shows_text:
            found["value"] = x[:_MOST_SHOWN]
        elif self._key is not None:
            half = _MOST_HASHED // 2
            some = x if len(x) <= _MOST_HASHED else x[:half] + x[-half:]
            data = some.encode("utf-8", "surrogatepass")
            digest = blake2b(data, digest_size=_HASH_BYTES, key=self._key).digest()
            found["hash"] = int.from_bytes(digest)
        return found


def _member(x: object) -> Written:
    """Return the name of a member of an enum; if it has none, like combined flags, its number."""
    found: dict[str, Any] = {"type": name_of(x)}
    attributes = attributes_of(x) or {}
    name, value = attributes.get("_name_"), attributes.get("_value_")
    if type(name) is str:
        found["value"] = name[:MOST_TEXT]
    elif type(value) is int:
        found["value"] = number(value)
    return found


def _itself(x: Any) -> Written:
    return x  # type: ignore[no-any-return]


def _number(x: complex) -> Written:
    value = number(x)
    if value is None:
        return {"type": "int", "bits": int.bit_length(x)}  # type: ignore[arg-type]
    return {"type": name_of(x), "value": value} if type(value) is str else value  # type: ignore[return-value]


def _length(x: Any) -> Written:
    try:
        return {"type": name_of(x), "len": len(x)}
    except OverflowError:  # a range may be longer than any list
        return {"type": name_of(x)}


_CONTAINERS: Final = (
    list, tuple, dict, set, frozenset, bytes, bytearray, range, deque, defaultdict, OrderedDict,
)  # fmt: skip

_ROWS: Final[dict[int, Row]] = {
    **{id(kind): _itself for kind in (bool, type(None))},
    **{id(kind): _number for kind in (int, float, complex)},
    **{id(kind): _length for kind in _CONTAINERS},
}
"""By the ``id`` of the type. All these types live forever."""
