"""Strings from outside made safe to show.

What a log says is not to be trusted: a string in it may hold terminal escapes, or text that reads
right to left.
"""

from __future__ import annotations

import unicodedata
from typing import Final

_LONGEST: Final = 2000
"""Characters of one string that are shown: no honest path, error or headline is longer."""

# Cc: terminal escapes. Cf: bidirectional overrides and what has no width. Cs, Co, Cn: nothing that
# a terminal could show. Zl, Zp: line breaks in disguise.
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def clean(text: str, *, lines: bool = False) -> str:
    """A string from outside that cannot do anything to a terminal; ``lines`` keeps its breaks."""
    if len(text) > _LONGEST:
        text = text[:_LONGEST] + ".."
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible(c, lines) for c in text)


def masked(line: str) -> str:
    """Return a line of the same length, in which nothing can do anything to a terminal.

    For what writes to one: whatever reaches it has been through :func:`clean`, or shows here that
    it has not.
    """
    if line.isprintable():
        return line
    return "".join("\ufffd" if unicodedata.category(c) in _HIDDEN else c for c in line)


def _visible(character: str, lines: bool) -> str:
    if character == "\n" and lines:
        return character
    if character in "\n\t\r":
        return " "
    return "" if unicodedata.category(character) in _HIDDEN else character
