"""A context manager lets one rank go first, and a collective stands in its body.

What it means
    ``with main_process_first():`` lets one rank do something before the others, such as a download.
    The others wait in a barrier at its entry until the one has left the body. A collective in the
    body needs all ranks, so they wait for each other.

Example
    ::

        with accelerator.main_process_first():
            rows = load()
            dist.all_reduce(rows)       # the others are held at the entry

Not to be confused with
    CT102, if a condition of the script's own is on the rank.

How to fix it
    Move the collective behind the ``with`` block.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

from collectrace import words as text
from collectrace.align.causes import apart, phrases
from collectrace.align.causes.apart import Step
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.reading import chains
from collectrace.ops import BARRIERS


class Held(NamedTuple):
    """Who is in the body, and who is held at the entry."""

    within: Step
    held: Step
    site: str
    """Of the ``with``."""
    text: str


def find(situation: Situation) -> Held | None:
    """Return the sides, one in the body of such a ``with``, the other at its line."""
    sides = apart.at_finding(situation)
    if len(sides) != 2:
        return None
    for within, held in (sides, sides[::-1]):
        if held.call is None or within.call is None or held.call.op not in BARRIERS:
            continue
        inside, line = chains.outermost_apart(within.stack, held.stack)
        if not inside or chains.scope(inside) != chains.scope(line):
            continue
        head = _with_at(situation, line)
        if head is not None and head.lineno < chains.line(inside) <= (head.end_lineno or 0):
            manager = text.brief(ast.unparse(head.items[0].context_expr))
            return Held(within, held, chains.site(line), f"with {manager}:")
    return None


def _with_at(situation: Situation, frame: str) -> ast.With | None:
    """Return the ``with`` statement at a frame's line that lets one rank go first."""
    tree = situation.case.code.parsed(chains.file(frame))
    for node in ast.walk(tree) if tree is not None else ():
        if not isinstance(node, ast.With) or node.lineno != chains.line(frame):
            continue
        manager = node.items[0].context_expr
        if isinstance(manager, ast.Call) and ast.unparse(manager.func).lower().endswith("_first"):
            return node
    return None


def words(_: Situation, found: Held) -> Words:
    """Return the words for ranks that wait for each other at such a block."""
    within, held = found.within, found.held
    call = phrases.call(within.call) if within.call is not None else "the call"
    said = phrases.statement(found.text, found.site)
    return Words(
        f"{within.who} called {call} in a block that holds {held.who}",
        (
            (
                f"{said} holds {held.who} at its entry, in a barrier, until {within.who} "
                f"{text.verb(within.ranks, 'has', 'have')} left its body."
            ),
            (
                f"In that body {within.who} called {call}, which {held.who} "
                f"{text.verb(held.ranks, 'reaches', 'reach')} only behind the entry: they wait for "
                "each other."
            ),
        ),
        (
            (
                f"Move {call} behind it: keep collectives out of the body of {said}, for what one "
                "rank does before the others (a download, a cache)."
            ),
        ),
    )
