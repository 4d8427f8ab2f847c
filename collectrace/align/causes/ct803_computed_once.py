"""A property or function that keeps its result makes a collective the first time it is used.

What it means
    ``functools.cached_property`` and ``cache`` run a function once in each process. The ranks must
    use it for the first time at the same point. A rank that uses it earlier, as for a log line,
    makes its collectives alone, and does not make them when the others do.

Example
    ::

        @cached_property
        def rows(self):
            return all_reduced(len(self.shard))

        if rank == 0:
            print(data.rows)        # the others use it later

Not to be confused with
    CT102, if the function makes the call each time.

How to fix it
    Use it once on every rank, before any condition.
"""

from __future__ import annotations

import ast
from typing import Final, NamedTuple

from collectrace import words as text
from collectrace.align.causes import apart, control, phrases
from collectrace.align.causes.apart import Step
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.reading import chains

_KEEP: Final = ("cached_property", "cache", "lru_cache")
"""Decorators of functools that keep what a function returns."""


class Found(NamedTuple):
    """Who is in such a function, and its frame."""

    step: Step
    frame: str


def find(situation: Situation) -> Found | None:
    """Return the side whose call is made in a function that keeps its result."""
    both = apart.steps(situation)
    if both is None:
        return None
    places = [{chains.scope(frame) for frame in step.stack} for step in both]
    for n, step in enumerate(both):
        for frame in step.stack:
            if chains.scope(frame) not in places[1 - n] and _keeps(situation, frame):
                return Found(step, frame)
    return None


def _keeps(situation: Situation, frame: str) -> bool:
    """Whether the function of a frame is decorated by what keeps its result."""
    tree, number = situation.case.code.parsed(chains.file(frame)), chains.line(frame)
    for node in ast.walk(tree) if tree is not None else ():
        if not isinstance(node, ast.FunctionDef) or node.name != chains.method(frame):
            continue
        called = (ast.unparse(one).partition("(")[0] for one in node.decorator_list)
        keeps = any(name.rpartition(".")[2] in _KEEP for name in called)
        if keeps and node.lineno <= number <= (node.end_lineno or 0):
            return True
    return False


def words(situation: Situation, found: Found) -> Words:
    """Return the words for a function that makes a collective once."""
    step, function = found.step, f"{chains.function(found.frame)}()"
    call = phrases.call(step.call) if step.call is not None else "the call"
    outer = step.stack[step.stack.index(found.frame) + 1 :]
    line = phrases.line(chains.site(outer[0])) if outer else ""
    return Words(
        f"{step.who} called {call} in {function}, which keeps its result",
        (
            f"{text.upper(step.who)} used {function}, which runs once in each process, for the "
            f"first time{line}; others use it at another point.",
            *control.why(situation),
        ),
        (f"Use {function} once on every rank at the same point, before{line} any condition.",),
    )
