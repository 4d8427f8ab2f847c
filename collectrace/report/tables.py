"""The tables of a finding: values that differ, which calls met, calls side by side."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final

from collectrace import words
from collectrace.findings import KINDS, Finding, Left, Table, TableRow
from collectrace.records import Call
from collectrace.report import text
from collectrace.signature import is_user

_MOST_ROWS: Final = 4
_MOST_NAMES: Final = 6
_MOST_FRAMES: Final = 8
_MOST_COLUMNS: Final = 3

MARKS: Final = {"": "", "parted": "apart >", "root": "first >", "fatal": "fails >"}
"""As text, since a pipe shows no colours: the first call that differs, and the first that fails.
``parted`` marks an earlier call, since which ranks were at different lines."""

_OUTCOMES: Final = {
    "": "", "parted": "different lines", "root": "first difference", "fatal": "fails here",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Grid:
    """A table."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    marks: tuple[str, ...] = ()
    """For each row, its ``TableRow.mark``."""
    rest: str = ""
    """A sentence about what the table omits."""
    columns: tuple[int, ...] = ()
    """The columns of the finding's table that are shown, as indices."""


def values(finding: Finding) -> Grid | None:
    """Return the variables that differ between two ranks; None: no difference is known.

    A variable that holds the rank itself is omitted, as it says nothing new.
    """
    rows: dict[str, tuple[str, str]] = {}
    ranks: tuple[int, ...] = ()
    for decision in finding.decisions or ():
        one, two = sorted(decision.sides, key=lambda side: side.rank)[:2]
        ranks = ranks or (one.rank, two.rank)
        if one.rank == two.rank or (one.rank, two.rank) != ranks:
            continue
        for name in (one.values or {}).keys() & (two.values or {}).keys():
            mine, theirs = (one.values or {})[name], (two.values or {})[name]
            if (_short(mine), _short(theirs)) == (str(one.rank), str(two.rank)):
                continue
            for told in (_short, value):
                if told(mine) != told(theirs):
                    one_is, two_is = told(mine, hashed=False), told(theirs, hashed=False)
                    two_is += ", another text" if one_is == two_is else ""
                    rows.setdefault(text.clean(name), _rounded(one_is, two_is))
    if not rows:
        return None
    cells = tuple((name, *rows[name]) for name in sorted(rows)[:_MOST_NAMES])
    return Grid("values", ("", *(f"rank {rank}" for rank in ranks)), cells)


def _rounded(one: str, two: str) -> tuple[str, str]:
    """Return two values, long numbers with six digits if these still differ."""
    short = tuple(f"{float(n):.6g}" if _LONG_NUMBER.fullmatch(n) else n for n in (one, two))
    return (short[0], short[1]) if short[0] != short[1] else (one, two)


_LONG_NUMBER: Final = re.compile(r"-?\d+\.\d{5,}(e[-+]?\d+)?")


def value(one: Any, *, hashed: bool = True) -> str:
    """Return a recorded value in words: ``nan``, ``a list of 4``.

    A string's text may not be recorded. ``hashed`` adds its hash, by which two strings differ.
    """
    if not isinstance(one, Mapping):
        return text.clean(str(one))
    kind = text.clean(str(one.get("type", "")))
    if "shape" in one or "dtype" in one:
        tensor = text.clean(f"{kind} {one.get('dtype', '')}{one.get('shape', '')}")
        tensor += ", in use by a call" if one.get("unsettled") else ""
        return f"{text.clean(str(one['value']))} ({tensor})" if "value" in one else tensor
    if "value" in one:
        return text.clean(str(one["value"]))
    if "len" not in one:
        return f"a {kind}"
    is_text = kind == "str" and isinstance(one["len"], int)
    size = words.counted(one["len"], "character") if is_text else one["len"]
    return f"a {kind} of {size}" + (f", hash {one['hash']}" if hashed and "hash" in one else "")


_UNTIL: Final[Mapping[Left, str]] = {
    "stall": "", "interrupt": "until Ctrl-C", "terminated": "until SIGTERM",
    "fatal": "at a fatal error",
}  # fmt: skip


def stacks(finding: Finding) -> Iterator[Grid]:
    """Yield the stacks of ranks that others wait for, the innermost line first.

    A stack of one frame is omitted: the excerpt shows it.
    """
    for one in finding.stacks or ():
        frames = [frame.rpartition(" ") for frame in one.frames[:_MOST_FRAMES]]
        held = words.seconds(one.held * 1e9) if one.held else ""
        told = ", ".join(filter(None, (held, _UNTIL[one.left])))
        left = len(one.frames) - len(frames)
        if len(frames) > 1:
            rows = [(text.short_site(site), text.clean(name)) for site, _, name in frames]
            waits = [(text.clean(one.waits_for),)] if one.waits_for else []
            yield Grid(
                f"stack of {words.ranks(one.ranks)}{f' ({told})' if told else ''}",
                ("", "", "waits for") if waits else (),
                tuple((*row, *more) for row, more in zip_longest(rows, waits, fillvalue=())),
                rest=f"called by {words.counted(left, 'more function')}" if left else "",
            )


def _short(one: Any, *, hashed: bool = True) -> str:
    return value(one.get("value", one) if isinstance(one, Mapping) else one, hashed=hashed)


def side_by_side(finding: Finding, most: int = _MOST_COLUMNS) -> Grid | None:
    """Return the calls around the difference, in at most ``most`` columns of ranks."""
    table = finding.table
    if table is None:
        return None
    columns, rest = _columns(finding, table, most)
    file = _file(table)
    rows: list[tuple[str, ...]] = []
    marks: list[str] = []
    for n, row in enumerate(table.rows):
        if n and row.seq > table.rows[n - 1].seq + 1:
            rows.append(("", "..", *[""] * len(columns)))
            marks.append("")
        rows.append((MARKS[row.mark], str(row.seq), *(_call(row.cells[c], file) for c in columns)))
        marks.append(row.mark)
    head = ("", "call", *(words.ranks(table.columns[c]) for c in columns))
    title = "calls side by side" + (f" (lines of {file})" if file else "")
    return Grid(title, head, tuple(rows), tuple(marks), rest, tuple(columns))


def meetings(finding: Finding) -> Grid | None:
    """Return which calls met, if ranks went on after the first difference; otherwise None."""
    table = finding.table
    if table is None:
        return None
    marks = [row.mark for row in table.rows]
    first = next((n for n, mark in enumerate(marks) if mark), None)
    is_passed = "parted" in marks or {"root", "fatal"} <= {*marks}
    is_told = KINDS[finding.kind].family == "message" or finding.kind == "role_mismatch"
    if first is None or not (is_passed or is_told):
        return None
    telling = [n for n in range(first, len(marks)) if marks[n] or _differs(table.rows[n])]
    if sum(_differs(table.rows[n]) and None not in table.rows[n].cells for n in telling) < 2:
        return None
    marked = {n for n in telling if marks[n]}
    chosen = sorted({*marked, *[max(0, first - 1), *telling][:_MOST_ROWS]})[:_MOST_ROWS]
    columns, rest = _columns(finding, table, _MOST_COLUMNS)
    file = _file(table)
    rows = []
    for n in chosen:
        told = "ok" if n < first else _OUTCOMES[marks[n]]
        if marks[n] == "root" and n < max(marked):
            told = "wrong partner, same bytes"
        row = table.rows[n]
        rows.append((str(row.seq), *(_call(row.cells[c], file) for c in columns), told))
    head = ("call", *(words.ranks(table.columns[c]) for c in columns), "")
    return Grid("what met what", head, tuple(rows), tuple(marks[n] for n in chosen), rest)


def _call(c: Call | None, file: str = "") -> str:
    """Return ``barrier (train.py:55)``, ``FSDP unshard of 0, float32[9] (line 7)``.

    ``file``: the one file of all lines in the table; empty if there are several.
    """
    if c is None:
        return "no call"
    place = f" ({text.short_site(c.site)})" if c.site else ""
    if file:
        place = place.replace(f"({file}:", "(line ")
    if is_user(c) or c.void:
        return text.call(c) + place
    tensors = text.clean(words.tensors(c))
    return text.short_issuer(c, of_part=True) + (f", {tensors}" if tensors else "") + place


def _file(table: Table) -> str:
    return text.only_file(c for row in table.rows for c in row.cells)


def _differs(row: TableRow) -> bool:
    return len({_call(c) for c in row.cells}) > 1


def _columns(finding: Finding, table: Table, most: int) -> tuple[list[int], str]:
    """Return the columns to show, suspects included, and a sentence about the others."""
    columns = range(len(table.columns))
    guilty = [n for n in columns if set(table.columns[n]) & set(finding.suspects)][:1]
    order = guilty + [n for n in columns if n not in guilty]
    rest = [rank for n in order[most:] for rank in table.columns[n]]
    return sorted(order[:most]), f"not shown: {words.ranks(rest)} (see --json)" if rest else ""
