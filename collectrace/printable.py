"""Make strings from outside safe to show.

Logs are not trusted: a string may hold terminal escapes, or right-to-left text.
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
    """Return a string that is safe for a terminal; ``lines`` keeps its line breaks."""
    if len(text) > _LONGEST:
        text = text[:_LONGEST] + ".."
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible(c, lines) for c in text)


def masked(line: str) -> str:
    """Return a line of the same length that is safe for a terminal.

    For code that writes to a terminal: text that did not go through :func:`clean` becomes visible
    here.
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
