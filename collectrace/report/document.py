"""What a report says of one finding, as blocks that the terminal, Markdown and the page show.

Everything in a document is safe to show: whatever comes from a log has been through ``clean``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from collectrace import words
from collectrace.findings import (
    KINDS,
    Alignment,
    Excerpt,
    Finding,
    RankState,
    Severity,
    Side,
    Table,
    cause_of,
    is_repeated,
)
from collectrace.ops import POINT_TO_POINT
from collectrace.records import Call
from collectrace.report import decisions, sidebyside, text
from collectrace.signature import is_user

_MOST_ROWS: Final = 6
_MOST_NAMES: Final = 6
_MOST_FIXES: Final = 3
_MOST_SIDES: Final = 6
_MOST_COLUMNS: Final = 4
_LONGEST_HEADLINE: Final = 300
_LONGEST_REASON: Final = 70
"""Characters of an exception's text."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the program, and what ranks did there."""

    number: str
    text: str
    what: str
    """As ``ExcerptLine.what``."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Listing:
    """Lines of one function."""

    heading: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """A table; its first row is the head."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    marks: tuple[str, ...] = ()
    """Of each row: as ``TableRow.mark``."""
    rest: str = ""
    """What is left out."""
    fixed: int = 1
    """Columns that are never folded."""


@dataclass(frozen=True, slots=True)
class Prose:
    """Sentences behind a label. Lines that are indented by four are code."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Remark:
    """What is said below the lines of the program."""

    text: str


Block = Listing | Remark | Grid | Prose


@dataclass(frozen=True, slots=True)
class Document:
    """What is said of one finding."""

    severity: Severity
    code: str
    headline: str
    blocks: tuple[Block, ...] = field(default=())

    @property
    def title(self) -> str:
        """Return ``error[CT102]``."""
        return f"{self.severity}[{self.code}]" if self.code else f"{self.severity}:"


def document(alignment: Alignment, n: int) -> Document:
    """Return what is said of a finding: where, values, what met what, why, fix, what followed."""
    finding = alignment.findings[n]
    blocks: list[Block] = [*listings(finding), *_open(finding), *_absent(alignment, finding)]
    suspects = words.ranks(finding.suspects) if finding.suspects else ""
    if suspects not in finding.headline.lower():
        blocks.append(Remark(f"suspect: {suspects}"))
    blocks += [one for one in (_values(finding), _meetings(finding)) if one is not None]
    blocks += explanation(finding)
    blocks += [Prose("then", told) for told in _followed(alignment, n)]
    return titled(finding, tuple(blocks))


def titled(finding: Finding, blocks: tuple[Block, ...] = ()) -> Document:
    """Return a finding by its headline, with some blocks."""
    headline = words.brief(text.clean(finding.headline), _LONGEST_HEADLINE)
    return Document(finding.severity, text.clean(finding.code or ""), headline, blocks)


# -- where -----------------------------------------------------------------------------------


def listings(finding: Finding) -> list[Listing]:
    """Return the lines of the program; without an excerpt the lines of the calls."""
    if finding.excerpt:
        known: set[str] = set()
        found = []
        for one in finding.excerpt:
            found.append(
                _listing(one, (text.short_site if one.path in known else text.site)(one.path))
            )
            known.add(one.path)
        return found
    sources = {line.site: line.text for line in finding.sources}
    by_file: dict[str, list[Row]] = {}
    for side in (*(finding.parted or ()), *finding.sides)[:_MOST_SIDES]:
        site = side.call.site if side.call is not None else side.site
        path, _, number = (site or "").rpartition(":")
        note = f"{words.ranks(side.ranks)}: {_called(side)}"
        if path:
            row = Row(text.clean(number), text.clean(sources.get(site or "", "").strip()), "call",
                      (note,))  # fmt: skip
            by_file.setdefault(text.site(path), []).append(row)
        elif side.call is not None:
            by_file.setdefault("", []).append(Row("", "", "call", (note,)))
    return [Listing(file, tuple(rows)) for file, rows in by_file.items()]


def _open(finding: Finding) -> Iterator[Remark]:
    """Return that it is not known which of several statements decided."""
    maybe = {d.site for d in finding.decisions or () if d.strength in ("possible", "equal")}
    lines = [
        (part.path, line.line)
        for part in finding.excerpt or ()
        for line in part.lines
        if line.what == "decision" and f"{part.path}:{line.line}" in maybe
    ]
    if len(lines) > 1:
        is_one = len({path for path, _ in lines}) == 1
        named = [str(n) if is_one else text.short_site(f"{path}:{n}") for path, n in lines]
        yield Remark(f"The logs do not show which of the lines {words.listed(named)} decided.")


def _listing(excerpt: Excerpt, file: str) -> Listing:
    name = text.clean(excerpt.function)
    heading = file + (f", {name}()" if _is_function(name) else "")
    if excerpt.library is not None:
        heading = f"in {text.clean(excerpt.library)}: {heading}"
    if excerpt.callers:
        callers = [_caller(one, excerpt.path) for one in reversed(excerpt.callers[-_MOST_ROWS:])]
        heading += f", called from {', '.join(callers)}"
    rows = (
        Row(
            str(line.line), text.clean(line.text), line.what,
            tuple(text.clean(note) for note in line.notes),
        )
        for line in excerpt.lines
    )  # fmt: skip
    return Listing(heading, tuple(rows))


def _is_function(name: str) -> bool:
    return bool(name) and not name.endswith(">")


def _caller(frame: str, path: str) -> str:
    """Return ``main() at line 40`` of a frame in the same file, else ``main() at train.py:40``."""
    site, _, function = frame.partition(" ")
    file, _, number = site.rpartition(":")
    name = f"{text.clean(function)}() " if _is_function(function) else ""
    place = f"line {text.clean(number)}" if file == path else text.short_site(site)
    return f"{name}at {place}"


def _called(side: Side) -> str:
    c = side.call
    if c is None:
        return text.STATES[side.state]
    numbered = "message" if c.op in POINT_TO_POINT else "call"
    issuer = text.issuer(c)
    return f"{numbered} {c.seq}, {text.call(c)}" + (f" ({issuer})" if issuer else "")


_GONE: Final = ("finished", "died", "missing", "silent", "raised")


def _absent(alignment: Alignment, finding: Finding) -> Iterator[Remark]:
    """Return how the ranks ended that did not call what the others called."""
    states = {rank.rank: rank for rank in alignment.ranks}
    lines = [line for part in finding.excerpt or () for line in part.lines]
    is_shown = any(line.what == "place" for line in lines)
    found: dict[str, list[int]] = {}
    for side in finding.sides:
        first = states.get(side.ranks[0]) if side.ranks else None
        if side.call is not None or side.site is not None or first is None:
            continue
        if side.state not in _GONE or (side.state == "raised" and is_shown):
            continue
        told = text.STATES[side.state]
        if side.state == "raised" and first.detail:
            told = f"raised {_reason(first)}"
        elif first.last_call is not None:
            last = first.last_call
            told += f"; last call: {text.name(last)}{text.at(last)}, call {last.seq}"
        found.setdefault(told, []).extend(side.ranks)
    for told, ranks in found.items():
        yield Remark(f"{words.ranks(ranks)} {told}")


# -- values and meetings ---------------------------------------------------------------------


def _values(finding: Finding) -> Grid | None:
    """Return the values of names that differ between two ranks."""
    rows: dict[str, tuple[str, ...]] = {}
    ranks: tuple[int, ...] = ()
    for decision in finding.decisions or ():
        if len(decision.sides) < 2 or decision.sides[0].rank == decision.sides[1].rank:
            continue
        one, two = decision.sides[:2]
        ranks = ranks or (one.rank, two.rank)
        if (one.rank, two.rank) != ranks:
            continue
        for name in (one.values or {}).keys() & (two.values or {}).keys():
            both = _unlike((one.values or {})[name], (two.values or {})[name])
            if both is not None:
                rows.setdefault(text.clean(name), both)
    if not rows:
        return None
    order = sorted(range(2), key=lambda n: ranks[n])
    cells = tuple((name, *(rows[name][n] for n in order)) for name in sorted(rows)[:_MOST_NAMES])
    return Grid("values", ("", *(f"rank {ranks[n]}" for n in order)), cells)


def _unlike(one: Any, two: Any) -> tuple[str, str] | None:
    """Return two values that differ, as short as shows it; None: they do not."""
    brief = [
        decisions.value(v.get("value", v) if isinstance(v, Mapping) else v) for v in (one, two)
    ]
    if brief[0] != brief[1]:
        return brief[0], brief[1]
    whole = [decisions.value(v) for v in (one, two)]
    return (whole[0], whole[1]) if whole[0] != whole[1] else None


_OUTCOMES: Final[Mapping[str, str]] = {
    "parted": "from different lines", "root": "first difference", "fatal": "fails here", "": "",
}  # fmt: skip


def _meetings(finding: Finding) -> Grid | None:
    """Return which calls met, where ranks got past the first difference."""
    table = finding.table
    if table is None:
        return None
    marks = [row.mark for row in table.rows]
    first = next((n for n, mark in enumerate(marks) if mark), None)
    is_told = KINDS[finding.kind].family == "message" or finding.kind == "role_mismatch"
    if first is None or not (
        is_told or "parted" in marks or ("root" in marks and "fatal" in marks)
    ):
        return None
    is_apart = {n for n, row in enumerate(table.rows) if len(set(map(_meaning, row.cells))) > 1}
    chosen = [max(0, first - 1)] + [
        n for n in range(first, len(marks)) if n == first or marks[n] or n in is_apart
    ]
    if sum(n in is_apart and None not in table.rows[n].cells for n in chosen) < 2:
        return None
    chosen = sorted({*(n for n in chosen if marks[n]), *chosen[:_MOST_ROWS]})[:_MOST_ROWS]
    last = max(n for n in chosen if marks[n])
    columns, rest = _columns(finding, table)
    rows = []
    for n in chosen:
        row = table.rows[n]
        is_passed = marks[n] == "root" and n != last
        told = "wrong partner, same bytes" if is_passed else _OUTCOMES[marks[n]]
        lines = len({c.site for c in row.cells if c is not None}) > 1
        cells = (_met(row.cells[c], at_line=lines) for c in columns)
        rows.append((str(row.seq), *cells, "ok" if n < first else told))
    head = ("call", *(words.ranks(table.columns[c]) for c in columns), "")
    return Grid("what met what", head, tuple(rows), tuple(marks[n] for n in chosen), rest)


def _met(c: Call | None, *, at_line: bool) -> str:
    """Return ``barrier (train.py:55)``, ``join() count of inputs``."""
    if c is None:
        return sidebyside.NO_CALL
    place = f" ({text.short_site(c.site)})" if c.site else ""
    if is_user(c):
        return text.call(c) + place
    issuer = text.short_issuer(c, of_part=True)
    return f"{issuer}, {text.clean(words.tensors(c))}{place if at_line else ''}"


def _meaning(call: Call | None) -> tuple[object, ...] | None:
    """Return by what a call is another one in a table of meetings."""
    if call is None:
        return None
    return (
        call.op,
        call.site,
        call.role,
        str(call.dtype),
        str(call.shape),
        call.reduce_op,
        call.root,
    )


_MARKS: Final = {"": "", "parted": "apart >", "root": "first >", "fatal": "fails >"}
"""In words, so that they survive a pipe: the first row that differs, and the first that fails;
ranks may have been at different lines since one before."""


def full_table(finding: Finding) -> Grid | None:
    """Return the calls around the difference, side by side."""
    table = finding.table
    if table is None:
        return None
    columns, rest = _columns(finding, table)
    file = sidebyside.only_file(table)
    rows = sidebyside.rows(table, without=file)
    cells = [
        (
            _MARKS[row.mark],
            row.seq,
            row.shared,
            *(row.cells[n].told() for n in columns if row.cells),
        )
        for row in rows
    ]
    head = ("", "call", "", *(words.ranks(table.columns[n]) for n in columns))
    title = "calls side by side" + (f" (lines of {file})" if file else "")
    return Grid(title, head, tuple(cells), tuple(row.mark for row in rows), rest, 3)


def _columns(finding: Finding, table: Table) -> tuple[list[int], str]:
    """Return the columns that are shown, and what is said of the others."""
    order = by_blame(table.columns, finding.suspects)
    rest = [rank for n in order[_MOST_COLUMNS:] for rank in table.columns[n]]
    left = f"not shown: {words.ranks(rest)} (see --json)" if rest else ""
    return sorted(order[:_MOST_COLUMNS]), left


def by_blame(columns: Sequence[tuple[int, ...]], suspects: Sequence[int]) -> list[int]:
    """Return the indices of columns, those to keep first: one with suspects in it is never cut."""
    guilty = [n for n, column in enumerate(columns) if set(column) & set(suspects)][:1]
    return guilty + [n for n in range(len(columns)) if n not in guilty]


# -- why, fix, and what followed -------------------------------------------------------------


def explanation(finding: Finding) -> list[Prose]:
    """Return why it happened, and what to change: the best way first, then others."""
    found = [Prose("why", text.clean(finding.cause, lines=True))] if finding.cause else []
    fixes = finding.fixes or ((finding.fix,) if finding.fix else ())
    for n, fix in enumerate(fixes[:_MOST_FIXES]):
        told = text.clean(fix, lines=True)
        found.append(
            Prose("" if n else "fix", told if not n or told[:3] == "Or " else f"Or: {told}")
        )
    return found


def _followed(alignment: Alignment, n: int) -> Iterator[str]:
    """Return what followed from a finding: the next error, and who raised an exception."""
    findings = alignment.findings
    effects = [m for m in range(len(findings)) if cause_of(findings, m) == n]
    effects = [m for m in effects if not is_repeated(findings, m)]
    if effects:
        more = f" (and {len(effects) - 1} more: --verbose)" if len(effects) > 1 else ""
        yield text.clean(words.brief(findings[effects[0]].headline, _LONGEST_HEADLINE)) + more
    if findings[n].severity != "error" or cause_of(findings, n) is not None:
        return
    absent = {r for side in findings[n].sides if side.call is None for r in side.ranks}
    by_type: dict[str, list[RankState]] = {}
    for rank in alignment.ranks:
        if rank.state == "raised" and rank.rank not in absent:
            by_type.setdefault(rank.detail.partition(":")[0], []).append(rank)
    told = []
    for those in by_type.values():
        reason = _reason(those[0])
        who = words.ranks(rank.rank for rank in those)
        told.append(f"{who} raised {reason}" if reason else f"{who} raised an exception")
    if told:
        yield words.listed(told[:_MOST_FIXES])


def _reason(rank: RankState) -> str:
    """Return ``RuntimeError (timed out)`` for what a rank raised."""
    error, _, message = text.clean(rank.detail).partition(": ")
    before, _, place = message.rpartition(" at ")
    message = before if ":" in place else message
    message = words.brief(message, _LONGEST_REASON)
    return f"{error} ({message})" if message else error
