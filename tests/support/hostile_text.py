"""Text that does things to a terminal, put wherever a log may hold text.

Taken from the dataclasses of the record kinds, so that a new field is covered by itself.
"""

from __future__ import annotations

import re
import typing
import unicodedata
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any, Final

from collectrace.records import KINDS, Activity, Record

TEXT: Final = (
    "\x1b[38;5;123mA\x1b]0;title\x07\x9b31m\x1bc\x00\x08\x7f\x85\x90\r\n\t"
    "B\u202eC\u2066\u2067\u2068\u2069\u200e\u200f\u061c\u2028\u2029\ufeff\u200bD"
)
"""C0 and C1 controls, sequences of a terminal, overrides of direction, line separators."""

SURROGATE: Final = "\udc80"
"""What a file's name or an argument holds where it is no UTF-8, as Python has it."""

OWN_STYLE: Final = re.compile(r"\x1b\[(?:0|[1-9]|3[0-7]|9[0-7])(?:;(?:[1-9]|3[0-7]|9[0-7]))*m")
"""What styles our reports: eight colours and their bright ones, bold, dim and the like."""

_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})

_NUMBERED: Final = re.compile(r"\d+ ")

_DECIDES: Final = frozenset({"phase", "reason", "what", "op", "role", "device", "backend"})
"""Fields by whose values a reader knows what to make of a record."""


def seen(shown: str, *, styled: bool = False) -> list[str]:
    """What of a text a terminal would not show as it stands there, with what is around it."""
    if styled:
        shown = OWN_STYLE.sub("", shown)
    return [
        shown[max(0, n - 40) : n + 40]
        for n, character in enumerate(shown)
        if character != "\n" and unicodedata.category(character) in _HIDDEN
    ]


def _holds_text(hint: Any) -> bool:
    return hint is str or hint is Any or any(map(_holds_text, typing.get_args(hint)))


def is_telling(name: str) -> bool:
    """Whether a reader that does not know the value of a field makes nothing of its line."""
    return name in _DECIDES


def poison(
    record: Record | Activity, is_meant: Callable[[type, str], bool], text: str, known: set[int]
) -> None:
    """Put a text beside whatever the fields of a record hold that are meant; or in their place.

    ``known``: ids of what has been through here, as heartbeats share what they are in.
    """
    if id(record) in known:
        return
    known.add(id(record))
    hints = typing.get_type_hints(type(record))
    for field in fields(record):
        value = getattr(record, field.name)
        if field.name == "in_":
            for activity in value:
                poison(activity, is_meant, text, known)
        elif _holds_text(hints[field.name]) and is_meant(type(record), field.name):
            setattr(record, field.name, _poisoned(value, hints[field.name], text))


def _poisoned(value: Any, hint: Any, text: str) -> Any:
    if isinstance(value, str):
        # A line of code is known by its number, and by what it begins with.
        return value + text if _NUMBERED.match(value) else text + value
    if isinstance(value, dict):
        inner = typing.get_args(hint)[1] if typing.get_args(hint) else str
        named = {text + key: _poisoned(item, inner, text) for key, item in value.items()}
        return named or {text: text if inner is str else [text]}
    if isinstance(value, list):
        return [_poisoned(item, str, text) for item in value] or (
            [text] if list[str] in (hint, *typing.get_args(hint)) else []
        )
    return text if value is None and str in typing.get_args(hint) else value


def one_of_each() -> list[Record]:
    """A record of every kind, with all that it must have."""
    found = []
    for cls in KINDS.values():
        hints = typing.get_type_hints(cls)
        needed = [f for f in fields(cls) if f.default is f.default_factory is MISSING]
        record = cls(**{f.name: _plain(hints[f.name]) for f in needed})
        for f in fields(cls):
            if f.name == "in_":
                record.in_ = [Activity(thread="t", what="call", since=1)]  # type: ignore[attr-defined]
        found.append(record)
    return found


def _plain(hint: Any) -> Any:
    origin = typing.get_origin(hint) or hint
    if origin in (dict, list):
        return origin()
    return {int: 1, str: "x", bool: True, float: 1.0}[origin]


def in_json(value: Any, text: str) -> Any:
    """A JSON value with a text before each of its strings; the names of its members stay."""
    if isinstance(value, str):
        return text + value
    if isinstance(value, list):
        return [in_json(item, text) for item in value]
    if isinstance(value, dict):
        return {name: in_json(item, text) for name, item in value.items()}
    return value
