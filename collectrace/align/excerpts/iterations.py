"""Find the loop iteration that ranks were in, from the values of the loop variable."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from collectrace.align.code import names
from collectrace.align.code.files import Frame, Function
from collectrace.align.excerpts.marks import Mark, name_ranks
from collectrace.align.judging.case import Case

_MOST: Final = 2
"""Distinct values that are shown."""


def note(
    case: Case, function: Function, loop: ast.AST, marks: Sequence[Mark]
) -> tuple[str, set[int]]:
    """Return ``iteration 4 on every rank (`step` = 3)``, and which ranks it is known of."""
    if not isinstance(loop, ast.For | ast.AsyncFor):
        return "", set()
    name = names.loop_variable(loop)
    inner = (
        names.loop_variable(one)
        for one in ast.walk(loop)
        if isinstance(one, ast.stmt) and one is not loop
    )
    if not name or name in inner:
        return "", set()
    by_value: dict[int, set[int]] = {}
    for mark in marks:
        for rank in mark.ranks if mark.what != "decision" and not mark.is_past else ():
            value = _value(case, rank, mark, function, loop, name)
            if value is not None:
                by_value.setdefault(value, set()).add(rank)
    told = []
    for value, ranks in sorted(by_value.items()):
        number, held = _number(loop, value), f"`{name}` = {value}"
        on, beside = name_ranks(case, ranks), f" ({held})" if name != "_" else ""
        told.append(f"{held} on {on}" if number is None else f"iteration {number} on {on}{beside}")
    if len(told) > _MOST:
        return "", set()
    return " · ".join(told), set().union(*by_value.values())


def _value(
    case: Case, rank: int, mark: Mark, function: Function, loop: ast.For | ast.AsyncFor, name: str
) -> int | None:
    """Return the value of the loop variable on a rank while it was at the marked line."""
    log = case.log(rank)
    for record in log.values.values() if log is not None else ():
        at = [Frame.parse(one.frame, one.first_line) for one in record.functions]
        if not at or (at[0].path, at[0].line) != mark.site:
            continue
        held = [
            record.functions[n].values.get(name)
            for n, frame in enumerate(at)
            if (frame.path, frame.function) == (function.file.path, function.qualified)
            and loop.lineno < frame.line <= (loop.body[-1].end_lineno or 0)
        ]
        if len(held) == 1 and type(held[0]) is int:
            return held[0]
    return None


def _number(loop: ast.For | ast.AsyncFor, value: int) -> int | None:
    """Return the number of an iteration, from 1; None if the source does not show it."""
    call = loop.iter
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.keywords:
        return None
    given = [one.value if isinstance(one, ast.Constant) else None for one in call.args]
    start, step = (given[0] if len(given) > 1 else 0), (given[2] if len(given) > 2 else 1)
    if call.func.id == "enumerate" and isinstance(loop.target, ast.Tuple):
        start, step = (given[1] if len(given) > 1 else 0), 1
    elif call.func.id != "range":
        return None
    if not isinstance(start, int) or not isinstance(step, int) or step == 0:
        return None
    return (value - start) // step + 1
