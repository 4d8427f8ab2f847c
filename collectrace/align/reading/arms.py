"""Lines in an ``else``: what decides about them is the contrary of the condition above.

A ``source`` record has the heads of the statements around a line as they stand in the file: an
``else:`` behind its ``if``, an ``elif`` behind those before it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

CONTRARY: Final = "else of line "
"""Begins what is told of a line in an ``else``: ``12 else of line 11: if rank == 0:``, where 12 is
the number of the ``else:`` or ``elif``."""

_HEAD: Final = re.compile(r"(if|elif|for|while|async for)\b")
_OTHER: Final = re.compile(r"(else\s*:|elif\b)")
_CONTRARY: Final = re.compile(rf"{CONTRARY}([0-9]{{1,8}}): (.*)")


class _Line(NamedTuple):
    number: str
    margin: str
    text: str


def told(lines: Sequence[str]) -> list[str]:
    """What is around a line, as ``number text``, itself last: with each ``else`` told as such.

    That of a ``try`` stays as it is: nothing is said above it that does not hold.
    """
    parsed = [_parsed(line) for line in lines]
    left: dict[int, str] = {}
    """By the position of a head the number of the part that the line is in instead."""
    found = list[str]()
    for n, (number, _, text) in enumerate(parsed):
        if _OTHER.match(text):
            left.update(dict.fromkeys(_before(parsed, n), number))
    for n, (line, (number, margin, text)) in enumerate(zip(lines, parsed, strict=True)):
        inside = [head for head in left if left[head] == number]
        if n in left:
            found.append(f"{left[n]} {margin}{CONTRARY}{number}: {text}")
        elif not (inside and text.startswith("else")) or n == len(lines) - 1:
            found.append(line)
    return found


def _parsed(line: str) -> _Line:
    number, _, rest = line.partition(" ")
    text = rest.lstrip()
    return _Line(number, rest[: len(rest) - len(text)], text)


def _before(lines: Sequence[_Line], at: int) -> list[int]:
    """The positions of the heads that the part at a position belongs to."""
    found: list[int] = []
    for n in range(at - 1, -1, -1):
        if not _HEAD.match(lines[n].text):
            break
        found.append(n)
        if not lines[n].text.startswith("elif"):
            break
    return found


def contrary(text: str) -> tuple[int, str] | None:
    """Number and text of the head whose ``else`` a line is told to be in; None: it is in none."""
    found = _CONTRARY.match(text)
    return (int(found[1]), found[2]) if found else None
