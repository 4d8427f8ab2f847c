"""Reduce a program's text to its structure: the same statements and lines, without its names.

So a reader can still find the condition that decided between two calls. Comments go, and each text
becomes a placeholder of as many lines.
"""

from __future__ import annotations

import ast
import io
import token
import tokenize
from typing import Final

from collectrace.redact.names import Names, terms

_F_STRINGS: Final = {
    getattr(token, f"{kind}STRING_START"): getattr(token, f"{kind}STRING_END")
    for kind in ("F", "T")
    if hasattr(token, f"{kind}STRING_START")
}
"""The first and the last tokens of a formatted text, in versions that split it into tokens."""


def of(text: str, names: Names) -> str | None:
    """Return the structure of a text; None: it is not Python.

    A fragment, such as the first line of a block, need not be complete.
    """
    lines = text.splitlines(keepends=True)
    out: list[str] = []
    at = (1, 0)
    end_of_text, depth = 0, 0
    try:
        for one in tokenize.generate_tokens(io.StringIO(text).readline):
            if depth:
                depth += (one.type in _F_STRINGS) - (one.type in _F_STRINGS.values())
                if depth:
                    continue
                out.append(_placeholder(one.string, one.end[0] - end_of_text, names))
            else:
                out.append(_between(lines, at, one.start))
                if one.type in _F_STRINGS:
                    depth, end_of_text = 1, one.start[0]
                    continue
                out.append(_changed(one, names))
            at = one.end
    except (tokenize.TokenError, IndentationError, SyntaxError):
        return None
    return "".join(out)


def fragment(text: str, names: Names) -> str:
    """Return the structure of an incomplete part of a program, as far as it is known."""
    indent = text[: len(text) - len(text.lstrip())]
    found = of(text.strip(), names)
    if found is None:
        found = of(f"{text.strip().rstrip('([{:')}\n", names)
    return indent + (found or "").rstrip("\n")


def _between(lines: list[str], start: tuple[int, int], end: tuple[int, int]) -> str:
    """Return the text between two tokens: spaces, and a backslash at the end of a line."""
    if start >= end:
        return ""
    if start[0] == end[0]:
        return _blank(lines[start[0] - 1][start[1] : end[1]])
    first, *rest = lines[start[0] - 1 : end[0] - 1]
    last = lines[end[0] - 1][: end[1]] if end[0] <= len(lines) else ""
    return _blank(first[start[1] :] + "".join(rest) + last)


def _blank(text: str) -> str:
    """Return a text if nothing but what separates tokens is in it."""
    return text if not text.strip(" \t\f\r\n\\\ufeff") else "\n" * text.count("\n")


def _changed(one: tokenize.TokenInfo, names: Names) -> str:
    if one.type == token.NAME:
        return names.word(one.string)
    if one.type == tokenize.COMMENT:
        return ""
    if one.type == token.STRING:
        if _is_term(one.string):
            return one.string
        return _placeholder(one.string, one.end[0] - one.start[0], names)
    return one.string if one.type != token.ERRORTOKEN else " "


def _is_term(literal: str) -> bool:
    """Whether a literal is one word that says nothing about a user, such as ``"RANK"``."""
    try:
        value = ast.literal_eval(literal)
    except (ValueError, SyntaxError):
        return False
    return isinstance(value, str) and (value in terms() or not value)


def _placeholder(literal: str, newlines: int, names: Names) -> str:
    prefix = "b" if "b" in literal[:2].lower() and literal[:1] not in "'\"" else ""
    text = names.of("text", literal)
    if newlines:
        return f'{prefix}"""{text}' + "\n" * newlines + '"""'
    return f'{prefix}"{text}"'
