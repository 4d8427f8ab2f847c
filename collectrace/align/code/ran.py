"""Find lines that never ran: their block would have made a collective first, and no rank did."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from collectrace import ops
from collectrace.align.code.files import Function
from collectrace.align.code.graph import called_name
from collectrace.align.code.places import Agreements, Site


def may_have_run(agreements: Agreements, function: Function, line: int) -> bool:
    """Return False if no rank made a call that comes before a line in one of its blocks."""

    def has_run(statement: ast.stmt) -> bool:
        # In a record, a call of several lines is at any of them.
        lines = range(statement.lineno, (statement.end_lineno or 0) + 1)
        return any(agreements.has_run(Site(function.file.path, one)) for one in lines)

    return all(
        has_run(one)
        for block in _blocks_around(getattr(function.tree, "body", ()), line)
        for one in block
        if one.lineno < line and _is_collective(one)
    )


def _blocks_around(body: Sequence[ast.stmt], line: int) -> Iterator[Sequence[ast.stmt]]:
    """Yield the blocks of compound statements around a line, from the outside inwards."""
    around = [one for one in body if one.lineno <= line <= (one.end_lineno or 0)]
    for one in around[:1]:
        parts = [one, *getattr(one, "handlers", ()), *getattr(one, "cases", ())]
        for part in parts:
            for name in ("body", "orelse", "finalbody"):
                block = getattr(part, name, ())
                if block and block[0].lineno <= line <= (block[-1].end_lineno or 0):
                    yield block
                    yield from _blocks_around(block, line)


def _is_collective(statement: ast.stmt) -> bool:
    """Whether a statement is only a call of a collective through torch.distributed."""
    if not isinstance(statement, ast.Expr | ast.Assign):
        return False
    match statement.value:
        case ast.Call(func=ast.Attribute(value=module, attr=name)):
            return name in ops.NAMES and called_name(module) in ("dist", "distributed")
        case _:
            return False
