"""A loop gave the ranks other items, or the same items in another order.

What it means
    All ranks run the same loop, and each item decides which call comes next. The collection is not
    the same on all ranks: a set, a dictionary that was filled in another order, files in the order
    of the directory.

Example
    ::

        for name in {"loss", "accuracy"}:   # another order in each process
            dist.all_reduce(metrics[name])

Not to be confused with
    CT103, if the loop has the same items and another length.

How to fix it
    Go through the same items in the same order on every rank, for example by ``sorted``.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

from collectrace import words as said
from collectrace.align.causes import collectives, deciders, phrases
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.findings import Decision


class Found(NamedTuple):
    """The statement that chose a call by an item, and the loop that gave the item."""

    decision: Decision
    text: str
    site: str


def find(situation: Situation) -> Found | None:
    """Return the loop whose items decided."""
    first = deciders.ranked(situation)[0]
    if deciders.form(first) == "loop" or deciders.form(first) == "handler":
        return None
    source = first.comes_from
    if source is not None and source.text.startswith("for ") and _is_by_item(first.text):
        return Found(first, source.text, source.site)
    if deciders.form(first) == "value" and first.text.startswith("for "):
        return Found(first, first.text, first.site)
    return Found(first, first.text, first.site) if _calls_items(first.text) else None


def words(situation: Situation, found: Found) -> Words:
    """Return the words for a loop over other items."""
    loop = phrases.statement(found.text.partition("  #")[0], found.site)
    differ = f"{loop} gave the ranks different items here: their order differs, or the items do."
    same = f"Go through the same items in the same order on every rank at {said.site(found.site)}"
    told = (deciders.depends(found.decision),) if _is_told(found.decision) else ()
    return Words(
        collectives.headline(situation), (differ, *told), (f"{same}, for example sorted.",)
    )


def _is_told(decision: Decision) -> bool:
    return deciders.origin(decision) in ("order", "random", "files", "received")


def _is_by_item(text: str) -> bool:
    """Whether a condition compares a name with constants, as in ``if name == "forces":``."""
    tests = [node for node in ast.walk(_parsed(text)) if isinstance(node, ast.Compare)]
    return any(
        isinstance(one.ops[0], ast.Eq | ast.NotEq | ast.In | ast.NotIn)
        and any(_is_constant(part) for part in (one.left, *one.comparators))
        for one in tests
    )


def _is_constant(node: ast.expr) -> bool:
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return is_text or (isinstance(node, ast.Name) and node.id.isupper())


def _calls_items(text: str) -> bool:
    """Whether a comprehension calls methods of its items: ``[part.state() for part in parts]``."""
    return any(
        isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp)
        and any(isinstance(inner, ast.Call) for inner in ast.walk(node))
        for node in ast.walk(_parsed(text))
    )


def _parsed(text: str) -> ast.AST:
    """Return a line as a tree; an empty one if it is only a part of a statement."""
    code = text.partition("  #")[0].strip()
    code = code.removeprefix("el") if code.startswith("elif ") else code
    for source in (code, f"{code} pass", f"def _():\n {code}"):
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return ast.Module([], [])
