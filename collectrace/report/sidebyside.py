"""The rows around a difference as plain cells: what the ranks share, and what each adds.

A row says once what all its calls have in common. A cell says who issued the call and, only
where they differ, the op, dtype, shape, reduce op or root: the eye finds the difference because
nothing else is there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from collectrace import words
from collectrace.findings import Table, TableRow
from collectrace.ops import canonical_op
from collectrace.records import Call
from collectrace.report import text
from collectrace.signature import counts, is_user

NO_CALL: Final = "no call"


@dataclass(frozen=True, slots=True)
class Cell:
    """One call of a row: what only it has, and who issued it."""

    what: str
    who: str

    def told(self) -> str:
        """Return it on one line."""
        return " ".join(part for part in (self.what, self.who) if part)


@dataclass(frozen=True, slots=True)
class Row:
    """One position of a stream, or a gap between two."""

    mark: str
    seq: str
    shared: str
    cells: tuple[Cell, ...]


GAP: Final = Row("", "..", "", ())


def only_file(table: Table) -> str:
    """The file in which all lines of a table are; empty if there are several."""
    apart = _apart_since(table)
    sites = {
        c.site
        for row in table.rows
        for c in row.cells
        if c is not None and (is_user(c) or (row.seq >= apart and c.site))
    }
    files = {text.short_site(site or "").rpartition(":")[0] for site in sites}
    return files.pop() if len(files) == 1 else ""


def rows(table: Table, *, without: str = "") -> list[Row]:
    """Every row of a table, a gap wherever positions were left out, and where iterations begin.

    ``without``: a file that cells need not name, where there is no room for it.
    """
    out: list[Row] = []
    last: int | None = None
    iteration = 0
    apart = _apart_since(table)
    for row in table.rows:
        if last is not None and row.seq > last + 1:
            out.append(GAP)
        begun = _iteration(row)
        if begun > iteration:
            out.append(Row("", "", f"iteration {begun}", ()))
            iteration = begun
        out.append(_row(row, without, by_line=row.seq >= apart))
        last = row.seq
    return out


def _iteration(row: TableRow) -> int:
    """The DDP iteration that all ranks have begun; 0 where that is not known.

    Ranks that ran out of inputs count on inside join(), and begin none.
    """
    begun = [
        c.iteration
        for c in row.cells
        if c is not None and c.iteration is not None and not c.role.startswith("join.")
    ]
    return min(begun, default=0)


def _apart_since(table: Table) -> float:
    """The row since which ranks are at different lines; beyond all rows if none is marked."""
    return next((row.seq for row in table.rows if row.mark == "parted"), math.inf)


def _row(row: TableRow, without: str, *, by_line: bool) -> Row:
    present = [c for c in row.cells if c is not None and not c.void]
    differs = _differing(present)
    if by_line and _differ(present, lambda c: c.site):
        differs = {*differs, "site"}
    op = text.clean(present[0].op) if present and "op" not in differs else ""
    cells = tuple(_cell(c, differs, without, wanted=bool(row.mark)) for c in row.cells)
    return Row(row.mark, str(row.seq), op, cells)


def _cell(c: Call | None, differs: Collection[str], without: str, *, wanted: bool) -> Cell:
    if c is None:
        return Cell("", NO_CALL if wanted else "-")
    if c.void:
        return Cell("", f"{text.clean(c.op)} (not described)")
    who = text.short_issuer(c, of_part="part" in differs, at_line="site" in differs)
    return Cell(_what(c, differs), who.replace(f"{without}:", ":") if without else who)


def _differing(calls: Sequence[Call]) -> Collection[str]:
    """The attributes to show, and the module. Calls of two ops need no comparison beyond that."""
    if _differ(calls, lambda c: canonical_op(c.op)):
        return {"op"}
    return {name for name, key in _ATTRIBUTES.items() if _differ(calls, key)}


def _differ(calls: Sequence[Call], key: Callable[[Call], object]) -> bool:
    return any(key(c) != key(calls[0]) for c in calls)


def _what(c: Call, differs: Collection[str]) -> str:
    parts = [text.clean(c.op)] if "op" in differs else []
    if "shape" in differs:
        shape = words.shapes(c.shape if c.shape is not None else c.out_shape)
        parts.append(text.clean(words.dtypes(c)) + shape)
    elif "dtype" in differs:
        parts.append(text.clean(words.dtypes(c)))
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
    "part": lambda c: c.part,
}
