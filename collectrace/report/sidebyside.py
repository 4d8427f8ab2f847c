"""The rows around a difference as plain cells: what the ranks share, and what each adds.

A row says once what all its calls have in common. A cell says who issued the call and, only
where they differ, the op, dtype, shape, reduce op or root: the eye finds the difference because
nothing else is there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from collectrace.findings import Table, TableRow
from collectrace.records import Call
from collectrace.report import text
from collectrace.signature import canonical_op, counts

NO_CALL: Final = "no call"


@dataclass(frozen=True, slots=True)
class Cell:
    """One call of a row: what only it has, and who issued it."""

    what: str
    who: str

    def lines(self, width: int) -> list[str]:
        """On one line where that fits, else on two."""
        parts = [part for part in (self.what, self.who) if part]
        joined = " ".join(parts)
        return [joined] if len(joined) <= width else parts


@dataclass(frozen=True, slots=True)
class Row:
    """One position of a stream, or a gap between two."""

    mark: str
    seq: str
    shared: str
    cells: tuple[Cell, ...]


MARKS: Final = {"": "", "root": "cause >", "fatal": "fatal >"}
"""In words, so that they survive a pipe; the first row that differs is the cause."""

GAP: Final = Row("", "..", "", ())


def rows(table: Table) -> list[Row]:
    """Every row of a table, a gap wherever positions were left out."""
    out: list[Row] = []
    last: int | None = None
    for row in table.rows:
        if last is not None and row.seq > last + 1:
            out.append(GAP)
        out.append(_row(row))
        last = row.seq
    return out


def _row(row: TableRow) -> Row:
    present = [c for c in row.cells if c is not None and not c.void]
    differs = _differing(present)
    op = text.clean(present[0].op) if present and "op" not in differs else ""
    cells = tuple(_cell(c, differs, wanted=bool(row.mark)) for c in row.cells)
    return Row(MARKS[row.mark], str(row.seq), op, cells)


def _cell(c: Call | None, differs: Collection[str], *, wanted: bool) -> Cell:
    if c is None:
        return Cell("", NO_CALL if wanted else "-")
    if c.void:
        return Cell("", f"{text.clean(c.op)} (not described)")
    return Cell(_what(c, differs), text.short_issuer(c))


def _differing(calls: Sequence[Call]) -> Collection[str]:
    """The attributes to show. Calls of two ops need no comparison beyond that."""
    if _differ(calls, lambda c: canonical_op(c.op)):
        return {"op"}
    return {name for name, key in _ATTRIBUTES.items() if _differ(calls, key)}


def _differ(calls: Sequence[Call], key: Callable[[Call], object]) -> bool:
    return any(key(c) != key(calls[0]) for c in calls)


def _what(c: Call, differs: Collection[str]) -> str:
    parts = [text.clean(c.op)] if "op" in differs else []
    if "shape" in differs:
        parts.append(text.dtype(c) + text.shape(c.shape if c.shape is not None else c.out_shape))
    elif "dtype" in differs:
        parts.append(text.dtype(c))
    if "reduce_op" in differs and c.reduce_op:
        parts.append(text.clean(c.reduce_op))
    if "root" in differs:
        parts.append(f"root {c.root}")
    return " ".join(parts)


_ATTRIBUTES: Final[dict[str, Callable[[Call], object]]] = {
    "dtype": lambda c: c.dtype,
    "shape": lambda c: (counts(c), c.shape),
    "reduce_op": lambda c: c.reduce_op,
    "root": lambda c: c.root,
}
