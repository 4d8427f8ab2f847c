"""The report for people: what is wrong, the lines of the program, why, and what to change.

It must be readable at 80 columns, without colour and in a pipe: a word repeats what a colour says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TextIO

from rich.console import Console
from rich.text import Text

from collectrace import words
from collectrace.findings import Alignment, cause_of, root_errors
from collectrace.report import ending, opening
from collectrace.report.document import (
    Block,
    Document,
    Listing,
    Prose,
    Remark,
    Row,
    document,
    titled,
)
from collectrace.report.layout import ARROW, BELOW, INDENT, LABEL, SEPARATOR, Page
from collectrace.report.tables import Grid

_WHOLE: Final = 3
"""How many findings of the worst severity are shown in full."""

_MOST_REMARKS: Final = 4
"""How many other findings are shown, by their headlines."""

_NUMBER: Final = 8
"""The column in which the text of a line begins, after its number."""

_GAP: Final = 3
_HANG: Final = 4
"""Columns by which the rest of a long line of the program is indented more."""

_NARROWEST: Final = 16
"""Columns that notes get at least, also on a narrow page."""

_AT: Final = ("call", "place")
"""Lines that ranks were at."""

_NOTE_STYLE: Final = {"decision": "yellow", "loop": "dim"}
_SEVERITY_STYLE: Final = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}
_LABEL_STYLE: Final = {"fix": "bold green", "then": "dim"}
_ROW_STYLE: Final = {"parted": "yellow", "root": "bold red", "fatal": "red"}


def write(alignment: Alignment, out: TextIO) -> None:
    """Write the report: with a terminal's width and colours, or plain if ``out`` is none."""
    render(alignment, Console(file=out))


def render(alignment: Alignment, console: Console) -> None:
    """Write the report to a console, with its width and colours."""
    page = Page(console)
    whole, others = chosen(alignment)
    _findings(page, alignment, whole, others)
    if not whole and alignment.status == "unknown":
        grid(page, ending.states(alignment))
        page.line()
    ending.show(page, alignment, whole)


def render_head(alignment: Alignment, console: Console, findings: Sequence[int]) -> None:
    """Write the job's state and these findings to a console: the first ones in full."""
    page = Page(console)
    _findings(page, alignment, findings[:_WHOLE], findings[_WHOLE:])
    ending.internal_errors(page, alignment)


def _findings(
    page: Page, alignment: Alignment, whole: Sequence[int], others: Sequence[int]
) -> None:
    opening.show(page, alignment)
    for n in whole:
        show(page, document(alignment, n))
    remarks(page, alignment, others)


def chosen(alignment: Alignment) -> tuple[list[int], list[int]]:
    """Return the findings to show in full, and those to show by their headlines only.

    Consequences are shown with their causes, and gaps of the evidence at the end.
    """
    findings = alignment.findings
    roots = [
        n
        for n, one in enumerate(findings)
        if cause_of(findings, n) is None and one.kind != "evidence_gap"
    ]
    worst = findings[roots[0]].severity if roots else None
    whole = [n for n in roots if findings[n].severity == worst][:_WHOLE]
    return whole, [n for n in roots if n not in whole]


def urgent(alignment: Alignment) -> list[int]:
    """Return the indices of the errors that no other finding caused.

    If there are none, return at most one gap in the evidence that is a warning.
    """
    findings = alignment.findings
    errors = root_errors(alignment)
    gaps = [
        n
        for n, found in enumerate(findings)
        if found.kind == "evidence_gap" and found.severity == "warning"
    ]
    return errors or gaps[:1]


def show(page: Page, told: Document) -> None:
    """Write a finding."""
    title(page, told)
    blocks(page, told.blocks)
    page.line()


def blocks(page: Page, told: Sequence[Block]) -> None:
    """Write the blocks of a finding, with empty lines between lines, tables and sentences."""
    column = _column(page, [row for one in told if isinstance(one, Listing) for row in one.rows])
    last: Block | None = None
    for block in told:
        is_apart = isinstance(block, Grid | Prose) or isinstance(last, Grid | Prose)
        if last is None or (is_apart and not (type(block) is type(last) is Prose)):
            page.line()
        match block:
            case Listing():
                _listing(page, block, column)
            case Remark():
                page.prose(block.text, indent=INDENT, hang=INDENT)
            case Grid():
                grid(page, block)
            case Prose():
                style = _LABEL_STYLE.get(block.label, "bold")
                label = block.label.ljust(LABEL - 4)
                page.prose(block.text, indent=LABEL, label=label, style=style)
        last = block


def title(page: Page, told: Document) -> None:
    """Write the first line of a finding."""
    head = (f"{told.title} ", _SEVERITY_STYLE[told.severity])
    page.prose(Text.assemble(head, (told.headline, "bold")), hang=INDENT)


def remarks(page: Page, alignment: Alignment, findings: Sequence[int]) -> None:
    """Write the headlines of findings."""
    for n in findings[:_MOST_REMARKS]:
        title(page, titled(alignment.findings[n]))
    if len(findings) > _MOST_REMARKS:
        more = words.counted(len(findings) - _MOST_REMARKS, "more finding")
        page.line(f"and {more} (--verbose)")
    if findings:
        page.line()


def _column(page: Page, rows: Sequence[Row]) -> int:
    """Return the column in which the notes of listings begin, to use the fewest lines."""
    columns = {_NUMBER + (len(row.text) + _GAP if row.text else 0) for row in rows if row.notes}
    fitting = [c for c in sorted(columns) if c <= page.width * 3 // 5] or [page.width // 3]
    return min(fitting, key=lambda c: (sum(len(_lines(page, row, c)) for row in rows), -c))


def _lines(page: Page, row: Row, column: int) -> list[Text]:
    """Return a line of the program, with notes on what ranks did there.

    The notes stand beside the line, from ``column`` on. If one is too long for that, all stand
    below the line, as wide as the page.
    """
    found, notes = _program(page, row), _notes(row)
    indent, sign = column, f"{ARROW} " if row.what in _AT else ""
    is_beside = (not row.text or (len(found) == 1 and found[0].cell_len + _GAP <= column)) and all(
        column + len(sign) + note.cell_len <= page.width for note in notes
    )
    if not is_beside:
        indent = _NUMBER + len(row.indentation)
        sign = f"{BELOW if row.text else ARROW} "
    told: list[Text] = []
    for n, note in enumerate(notes):
        lead = sign if not n or row.what in _AT else " " * len(sign)
        parts = note.wrap(page.console, max(page.width - indent - len(sign), _NARROWEST))
        leads = [lead, *[" " * len(sign)] * (len(parts) - 1)]
        told += [Text(one, note.style) + part for one, part in zip(leads, parts, strict=True)]
    if told and (is_beside or not row.text):
        found[-1].pad_right(indent - found[-1].cell_len)
        found[-1] += told.pop(0)
    return [*found, *(Text(" " * indent) + one for one in told)]


def _program(page: Page, row: Row) -> list[Text]:
    """Return a line of the program. Only a line about which something is said is shown whole."""
    number = Text(row.number.rjust(_NUMBER - 3) + "   ", "dim")
    line = number + Text(row.text)
    is_told = row.notes or row.what == "decision"
    if line.cell_len <= page.width or not is_told:
        line.truncate(page.width, overflow="ellipsis" if page.is_unicode else "crop")
        return [line]
    indent = len(row.indentation)
    hang = min(_NUMBER + indent + _HANG, page.width // 2)
    parts = Text(row.text.strip()).wrap(page.console, max(page.width - hang, _NARROWEST))
    first, rest = parts[0], parts[1:]
    return [number + Text(" " * indent) + first, *(Text(" " * hang) + one for one in rest)]


def _listing(page: Page, listing: Listing, column: int) -> None:
    if listing.heading:
        page.prose(Text(listing.heading, "cyan"), indent=INDENT, hang=INDENT)
    for row in listing.rows:
        for line in _lines(page, row, column):
            page.line(line)


def _notes(row: Row) -> list[Text]:
    """Return the notes of a line: each call separately, a decision's notes on one line."""
    if row.what in _AT:
        return [Text(note, "bold") for note in row.notes]
    if row.what in _NOTE_STYLE:
        return [Text(SEPARATOR.join(row.notes), _NOTE_STYLE[row.what])] if row.notes else []
    return [Text(note) for note in row.notes]


def grid(page: Page, table: Grid) -> None:
    """Write a table."""
    if table.title:
        page.line(Text(table.title, "bold"), indent=INDENT)
    styles = [_ROW_STYLE.get(mark, "") for mark in table.marks or [""] * len(table.rows)]
    rows = [(table.head, "dim"), *zip(table.rows, styles, strict=True)]
    page.columns(rows, indent=2 * INDENT, fixed=2 if table.columns else 1)
    if table.rest:
        page.line(table.rest, indent=2 * INDENT)
