"""Statements that a rank had not reached yet in the iteration that both ranks were in.

The source alone allows that a rank came by them in an earlier iteration. Where the variable of the
loop was recorded, and holds the same on both ranks, it did not.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from collectrace.align.code import names
from collectrace.align.code.decisions import Decision
from collectrace.align.code.files import Frame, Gap
from collectrace.align.code.program import Program
from collectrace.align.deciding.held import Levels

_Loop = ast.For | ast.AsyncFor | ast.While


def is_unreached(program: Program, decision: Decision, rank: int, levels: Sequence[Levels]) -> bool:
    """Whether a decision lies behind the line of one of two ranks in the iteration of both.

    ``rank``: one of them. ``levels``: the functions of either, as their variables were read.
    """
    at = Frame(decision.site.path, decision.site.line, decision.function)
    function = program.files.function(rank, at)
    if isinstance(function, Gap):
        return False
    read = [one.of_function(function) for one in levels]
    known = [one for one in read if one is not None]
    if len(known) != 2:
        return False
    lines = [Frame.parse(one.frame).line for one in known]
    line = decision.site.line
    loops = [one for one in ast.walk(function.tree) if isinstance(one, _Loop)]
    around = [one for one in loops if all(_holds(one, n) for n in (*lines, line))]
    loop = max(around, key=lambda one: one.lineno, default=None)
    if loop is None or min(lines) >= line:
        return False
    if any(_holds(one, line) and _holds(one, min(lines)) for one in loops if one not in around):
        return False
    name = names.loop_variable(loop)
    values = [one.values.get(name) for one in known]
    return type(values[0]) in (int, str) and values[0] == values[1]


def _holds(loop: _Loop, line: int) -> bool:
    """Whether a line is in the body of a loop."""
    return loop.body[0].lineno <= line <= (loop.body[-1].end_lineno or 0)
