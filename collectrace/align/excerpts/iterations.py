"""In which iteration of a loop ranks were, by the values of its variable."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from collectrace.align.code.files import Frame, Function
from collectrace.align.excerpts.marks import Mark, who
from collectrace.align.judging.case import Case


def note(case: Case, function: Function, loop: ast.AST, marks: Sequence[Mark]) -> str:
    """Return ``iteration 4 on every rank (`step` = 3)``; empty if it is not known."""
    if not isinstance(loop, ast.For | ast.AsyncFor):
        return ""
    name = _variable(loop.target)
    if not name:
        return ""
    by_value: dict[int, set[int]] = {}
    for rank, value in _values(case, function, loop, name, marks):
        by_value.setdefault(value, set()).add(rank)
    told = []
    for value, ranks in sorted(by_value.items()):
        number = _number(loop, value)
        held = f"`{name}` = {value}"
        on = who(case, ranks)
        told.append(f"{held} on {on}" if number is None else f"iteration {number} on {on} ({held})")
    return " · ".join(told[:2]) if len(told) <= 2 else ""


def _values(
    case: Case, function: Function, loop: ast.For | ast.AsyncFor, name: str, marks: Sequence[Mark]
) -> Iterator[tuple[int, int]]:
    """Return ranks, and what the variable held on each while it was at a line that is shown."""
    at: Mapping[int, list[Frame]] = {
        rank: [m.stack[0] for m in marks if rank in m.ranks and m.what != "decision"]
        for rank in {rank for mark in marks for rank in mark.ranks}
    }
    for rank, places in at.items():
        log = case.log(rank)
        for record in log.values.values() if log is not None else ():
            frames = [Frame.parse(one.frame, one.first_line) for one in record.functions]
            if not frames or not any(
                (one.path, one.line) == (frames[0].path, frames[0].line) for one in places
            ):
                continue
            held = [
                record.functions[n].values.get(name)
                for n, frame in enumerate(frames)
                if (frame.path, frame.first) == (function.file.path, function.first)
                and frame.function == function.qualified
                and loop.lineno < frame.line <= (loop.body[-1].end_lineno or 0)
            ]
            if len(held) == 1 and type(held[0]) is int:
                yield rank, held[0]
                break


def _variable(target: ast.expr) -> str:
    """Return the name that counts: the target, or the first of several."""
    while isinstance(target, ast.Tuple | ast.List) and target.elts:
        target = target.elts[0]
    return target.id if isinstance(target, ast.Name) else ""


def _number(loop: ast.For | ast.AsyncFor, value: int) -> int | None:
    """Return the number of an iteration, from 1; None: the source does not show it."""
    call = loop.iter
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        return None
    given = [one.value if isinstance(one, ast.Constant) else None for one in call.args]
    if call.func.id == "range" and call.args and not call.keywords:
        start, step = (given[0] if len(given) > 1 else 0), (given[2] if len(given) > 2 else 1)
    elif call.func.id == "enumerate" and isinstance(loop.target, ast.Tuple) and not call.keywords:
        start, step = (given[1] if len(given) > 1 else 0), 1
    else:
        return None
    if not isinstance(start, int) or not isinstance(step, int) or step == 0:
        return None
    return (value - start) // step + 1
