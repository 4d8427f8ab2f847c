"""Make strings of a log safe to show, and print calls in a table.

A log is not trusted: a string in it may hold terminal escapes, or text that reads right to left.
All text from a log passes through :func:`clean` before it is shown.

Findings name a call within a sentence (:mod:`collectrace.words`). A table cell has less room and
needs more details of the call.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Final

from collectrace import roles, words
from collectrace.findings import GroupInfo, State
from collectrace.ops import canonical_op
from collectrace.printable import clean as clean
from collectrace.records import Call

STATES: Final[dict[State, str]] = {
    "finished": "finished",
    "raised": "raised an exception",
    "blocked": "blocked",
    "busy": "busy",
    "died": "died",
    "silent": "no sign of life",
    "running": "running",
    "missing": "left no file",
    "unknown": "not known",
}
"""What a rank is doing, in words."""


NUMBER: Final = re.compile(r"(?<!\.py:)(?<!line )(?<!call )(?<!message )(?<!group )(?<!\d)\d+")
"""Ports, seconds and ranks: details that differ only in them are printed once. Those of another
line, call or group are other details."""

_CODE: Final = re.compile(r"(?<![`$])`([^`\n]+)`(?!`)")
"""A quotation of the program in a sentence of a finding."""


def pieces(told: str) -> list[tuple[bool, str]]:
    """Return the parts of a sentence in order; True: a quotation, without its backticks."""
    return [(bool(n % 2), part) for n, part in enumerate(_CODE.split(told)) if part]


def group(info: GroupInfo) -> str:
    """Return ``the default group`` or ``group tp (3)``: the user's description and the name."""
    told = words.group(info)
    is_its_name = told == words.named_group(info.name)
    return clean(told) if is_its_name else f"{clean(told)} ({clean(info.name)})"


def named_group(name: str) -> str:
    """Return ``the default group`` or ``group 3``, for a group with no more than a name."""
    return clean(words.named_group(name))


def backend(info: GroupInfo) -> str:
    """Return ``gloo`` for ``cpu:gloo,cuda:gloo``."""
    names = (part.rpartition(":")[2] for part in clean(info.backend).split(","))
    return ", ".join(dict.fromkeys(names))


def whole_group(info: GroupInfo) -> str:
    """Return ``the default group (gloo, ranks 0-2)``."""
    members = words.ranks(info.ranks) if info.ranks else ""
    return f"{group(info)} ({', '.join(part for part in (backend(info), members) if part)})"


def site(place: str) -> str:
    """Return ``path:line``, relative if the file is below the working directory."""
    place = clean(place)
    here = str(os.path.abspath(os.curdir)) + os.sep  # noqa: PTH100 - a prefix of a string
    return place.removeprefix(here)


def short_site(place: str) -> str:
    """Return ``file:line``, without folders."""
    return clean(words.site(place))


def only_file(calls: Iterable[Call | None]) -> str:
    """Return the file in which all lines of some calls are; empty if there are several."""
    files = {short_site(c.site).rpartition(":")[0] for c in calls if c is not None and c.site}
    return files.pop() if len(files) == 1 else ""


def at(c: Call) -> str:
    """Return `` at train.py:43``, or nothing."""
    return clean(words.at(c))


def call(c: Call) -> str:
    """Return a call with all details on one line: ``all_reduce float32[2, 3] SUM``."""
    return clean(words.whole(c))


def name(c: Call) -> str:
    """Return the name of a call in a headline."""
    return clean(words.name(c))


def issuer(c: Call) -> str:
    """Return who issued the call, in words; empty for user code, which its site identifies."""
    parts = []
    if c.role == roles.UNKNOWN:
        parts.append("issued by: not known")
    elif c.role != roles.USER:
        parts.append(clean(roles.words(c.role)))
        if c.model is not None and c.model > 1:
            parts.append(f"of model {c.model}")
    elif c.api and c.api != c.op:
        parts.append(f"issued by {clean(c.api)}()")
    if c.thread:
        parts.append(f"in thread {clean(c.thread)}")
    return ", ".join(parts)


def short_issuer(c: Call, *, of_part: bool = False) -> str:
    """Return who issued the call, in the few words of a table cell.

    ``of_part``: with the module, if a framework issued the call. A call of the script has its line.
    """
    if c.role not in (roles.USER, roles.UNKNOWN):
        model = f" #{c.model}" if c.model is not None and c.model > 1 else ""
        part = f" of {c.part}" if of_part and c.part else ""
        return clean(f"{roles.short(c.role)}{model}{part}")
    name = f"{clean(c.api)}()" if c.api and canonical_op(c.api) != canonical_op(c.op) else ""
    return " ".join(part for part in (name, short_site(c.site or "")) if part)
