"""The lines of a script that decide between its ranks, as far as its header names them.

A header names a line by its mark (``GUARD``), or quotes it (``if rank == 0``), where it says what
the cause must mention. Such a line decides if it begins a branch, a loop or a handler, or if a
condition in it chooses what a call is given. What a condition has its value from decides nothing
by itself.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from tests.zoo.case import Case, marked_places

_BETWEEN: Final = re.compile(r"[;|](?=(?:[^/]|/[^/]*/)*$)")
"""Between what a header asks for: see ``mentions``, on which recorded programs depend."""

_QUOTED: Final = re.compile(r"(if|elif|while|for|except)\b")
_TWIN: Final = "TWIN"


def lines_named(case: Case) -> dict[int, str]:
    """Return the deciding lines that a header names, with what names each."""
    statements, conditions = _deciding(case.source)
    marks = {
        mark: [int(place.rpartition(":")[2]) for place in places]
        for mark, places in marked_places(case.path, case.source).items()
    }
    texts = case.source.splitlines()
    found: dict[int, str] = {}
    for word in map(str.strip, _BETWEEN.split(case.fields.get("cause", ""))):
        for line in marks.get(word, ()):
            # The guilty line is that of the call: of a loop over works, say.
            if line in conditions or (line in statements and word != "BUG"):
                found[line] = word
        if (pattern := _quoted(word)) is not None:
            for line in statements | conditions:
                if pattern.search(texts[line - 1].strip()):
                    found[line] = word
    return found


def _quoted(word: str) -> re.Pattern[str] | None:
    """Return what a quoted statement is looked for by; None: it is no statement."""
    is_pattern = len(word) > 2 and word[0] == word[-1] == "/"
    text = word[1:-1].replace("`", "") if is_pattern else re.escape(word.rstrip("*"))
    is_statement = _QUOTED.match(text) is not None and (" " in text or text == "except")
    return re.compile(text) if is_statement else None


def _deciding(source: str) -> tuple[set[int], set[int]]:
    """Return the lines of statements that branch, and those of expressions that choose."""
    statements, conditions, assigned = set[int](), set[int](), set[int]()
    for node in ast.walk(ast.parse(source)):
        match node:
            case (
                ast.If()
                | ast.While()
                | ast.For()
                | ast.AsyncFor()
                | ast.ExceptHandler()
                | ast.Match()
                | ast.Assert()
            ):
                statements.add(node.lineno)
            case ast.IfExp(test=test) if _asks(test):
                conditions.add(node.lineno)
            case ast.BoolOp() if _asks(node):
                conditions.add(node.lineno)
            case ast.Assign() | ast.AnnAssign() | ast.With():
                assigned.add(node.lineno)
            case _:
                pass
    return statements, conditions - assigned - statements


def _asks(test: ast.expr) -> bool:
    """Whether a condition looks at more than whether the script is its twin."""
    return any(_TWIN not in name for name in _names(test))


def _names(tree: ast.expr) -> Iterator[str]:
    return (one.id for one in ast.walk(tree) if isinstance(one, ast.Name))
