"""Exceptions that the tracer would have noted, had they been raised.

It notes an exception that leaves a recorded call, and one during which such a call is made. Where a
call in a ``finally`` block has no such note, the block was entered as usual.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Sequence
from dataclasses import replace
from typing import Final

from collectrace.align.code.between import Side
from collectrace.align.code.decisions import Decision
from collectrace.align.code.files import Frame, Function, Gap
from collectrace.align.code.graph import Way
from collectrace.align.code.origins import Origin
from collectrace.align.code.program import Program, Stack
from collectrace.align.deciding import frames
from collectrace.align.deciding.sides import Pair
from collectrace.align.deciding.timeline import Entry
from collectrace.align.judging.case import Case

_MOST: Final = 50
"""Exceptions of a rank beyond which some may not have been recorded."""


def quiet(case: Case, pair: Pair) -> tuple[Side, Side]:
    """Return two sides, each with whether no recorded call raised before its next call."""
    one, two = (
        replace(side, is_quiet=_raised_none(case, side.rank, made[-1].t if made else 0, t))
        for side, made, t in zip((pair.one, pair.two), pair.made, pair.times, strict=True)
    )
    return one, two


def is_ruled_out(case: Case, program: Program, pair: Pair, decision: Decision) -> bool:
    """Whether an exception decided only if it led into a block that was entered as usual."""
    if decision.origins != (Origin.EXCEPTION,):
        return False
    at = Frame(decision.site.path, decision.site.line, decision.function)
    function = program.files.function(pair.one.rank, at)
    if isinstance(function, Gap):
        return False
    lines = _lines(function, at.line)
    return all(
        (did is not None and did.way is Way.NO_HANDLER)
        or (
            isinstance(side.next, tuple)
            and _line(function, side.stack) in lines
            and _raised_none(case, side.rank, _begin(function, made, lines), t)
        )
        for side, did, made, t in zip(
            (pair.one, pair.two), decision.outcomes, pair.made, pair.times, strict=True
        )
    )


def _begin(function: Function, made: Sequence[Entry], lines: Container[int]) -> int:
    """Return when a rank made its last call outside of some lines, ns; 0: it made none.

    Of calls in one block only the first has a note of the exception.
    """
    outside = (
        one.t for one in reversed(made) if _line(function, frames.of_stack(one.stack)) not in lines
    )
    return next(outside, 0)


def _raised_none(case: Case, rank: int, begin: int, end: int | None) -> bool:
    """Whether a rank raised nothing that is recorded between two moments."""
    log = case.log(rank)
    if log is None or log.imported or end is None or len(log.caught) >= _MOST:
        return False
    times = [one.t for those in (log.caught, log.failed, log.refused) for one in those]
    return not any(begin < t <= end for t in times)


def _lines(function: Function, line: int) -> Container[int]:
    """Return the lines of the ``finally`` of a ``try``; none: it has none."""
    for node in ast.walk(function.tree):
        if isinstance(node, ast.Try) and node.finalbody and node.lineno == line:
            last = node.finalbody[-1]
            return range(node.finalbody[0].lineno, (last.end_lineno or last.lineno) + 1)
    return ()


def _line(function: Function, stack: Stack) -> int:
    path, name = function.file.path, function.qualified
    return next((one.line for one in stack if (one.path, one.function) == (path, name)), 0)
