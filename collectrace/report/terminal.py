"""The report for people: which collective, which rank, which line, why, and what to change.

It must be readable at 80 columns, without colour and in a pipe: what colour says, a word says too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TextIO, TypeVar

from rich.console import Console
from rich.text import Text

from collectrace import words
from collectrace.findings import (
    KINDS,
    Alignment,
    Finding,
    RankState,
    Side,
    SourceLine,
    Table,
    cause_of,
    is_repeated,
)
from collectrace.ops import POINT_TO_POINT
from collectrace.records import Call
from collectrace.report import ending, opening, sidebyside, text
from collectrace.report.layout import INDENT, LABEL, Page

T = TypeVar("T")

_WHOLE: Final = 3
"""Errors without a cause of their own that are told in full; of the rest the headline."""

_MOST_SIDES: Final = 6
_MOST_EFFECTS: Final = 4
_MOST_AROUND: Final = 3
"""Statements around a line that are shown, the innermost."""

_MOST_COLUMNS: Final = 4
_FEWEST_COLUMNS: Final = 2

_SEVERITY_STYLE: Final = {"error": "bold red", "warning": "yellow", "info": "cyan"}
_ROW_STYLE: Final = {
    sidebyside.MARKS["parted"]: "yellow",
    sidebyside.MARKS["root"]: "bold red",
    sidebyside.MARKS["fatal"]: "red",
}

_LABEL_STYLE: Final = {"fix": "bold green", "more": "green", "note": "dim"}


def write(alignment: Alignment, out: TextIO) -> None:
    """Write the report; a terminal's width and colours are followed, elsewhere it is plain."""
    render(alignment, Console(file=out))


def render(
    alignment: Alignment, console: Console, beside: Callable[[Page, Finding], None] | None = None
) -> None:
    """Write the report to a console, whose width and colours it follows.

    ``beside`` writes more about each finding that is shown in full, or that is warned of.
    """
    page = Page(console)
    findings = alignment.findings
    causes = [n for n in range(len(findings)) if cause_of(findings, n) is None]
    whole = [n for n in causes if findings[n].severity == "error"][:_WHOLE]
    opening.show(page, alignment)
    for n in whole:
        _error(page, alignment, n)
        if beside is not None:
            beside(page, findings[n])
        page.line()
    others = [n for n in causes if n not in whole and findings[n].kind != "evidence_gap"]
    if others:
        page.heading("also" if whole else "noticed")
        for n in others:
            _remark(page, findings, n, whole=not whole)
            if beside is not None:
                beside(page, findings[n])
        page.line()
    ending.show(page, alignment)


def render_head(alignment: Alignment, console: Console, findings: Sequence[int]) -> None:
    """Write how the job stands, and some of the findings, to a console: the first ones in full."""
    page = Page(console)
    opening.show(page, alignment)
    for n in findings[:_WHOLE]:
        _error(page, alignment, n)
        page.line()
    for n in findings[_WHOLE:]:
        _remark(page, alignment.findings, n, whole=False)
    ending.internal_errors(page, alignment)


def urgent(alignment: Alignment) -> list[int]:
    """Indices of the errors that nothing else led to; else of what others wait for unknowingly.

    That is one finding at most, of ranks of which nothing is known.
    """
    findings = alignment.findings
    errors = [
        n
        for n, found in enumerate(findings)
        if found.severity == "error" and cause_of(findings, n) is None
    ]
    gaps = [
        n
        for n, found in enumerate(findings)
        if found.kind == "evidence_gap" and found.severity == "warning"
    ]
    return errors or gaps[:1]


# One finding


def _error(page: Page, alignment: Alignment, n: int) -> None:
    findings = alignment.findings
    finding = findings[n]
    page.prose(Text(text.clean(finding.headline), _SEVERITY_STYLE["error"]))
    (cause, why), (fix, more) = opening.split(finding.cause), opening.split(finding.fix)
    _labelled(page, "cause", cause)
    _labelled(page, "fix", fix)
    page.line()
    page.prose(place(finding), indent=INDENT)
    page.line()
    sources = {line.site: line for line in finding.sources}
    _parted(page, finding.parted or (), sources)
    for side in finding.sides[:_MOST_SIDES]:
        _side(page, finding, side, sources)
    if len(finding.sides) > _MOST_SIDES:
        rest = [r for side in finding.sides[_MOST_SIDES:] for r in side.ranks]
        page.line(f"and {words.ranks(rest)}, in further variants (see --json)", indent=INDENT)
    if finding.table is not None:
        page.line()
        _table(page, finding, finding.table, alignment.ranks)
    if why or more or finding.notes or _effects(findings, n):
        page.line()
    _labelled(page, "why", why)
    _labelled(page, "more", more)
    _labelled(page, "note", "\n".join(finding.notes))
    _consequences(page, findings, n, depth=0)


def _explanation(page: Page, finding: Finding, *, depth: int) -> None:
    _labelled(page, "cause", finding.cause, depth=depth)
    _labelled(page, "fix", finding.fix, depth=depth)
    _labelled(page, "note", "\n".join(finding.notes), depth=depth)


def place(finding: Finding) -> str:
    """Kind, row and group of a finding, in words."""
    where: str = finding.kind
    if finding.seq is not None and finding.kind != "group_mismatch":
        # Messages are numbered per channel, calls per group.
        numbered = "message" if KINDS[finding.kind].family == "message" else "call"
        where += f" at {numbered} {finding.seq}"
    if finding.group is not None:
        group = finding.group
        members = words.ranks(group.ranks) if group.ranks else ""
        inside = ", ".join(part for part in (text.backend(group), members) if part)
        where += f" {'in' if finding.seq is None else 'of'} {text.group(group)} ({inside})"
    shown = {r for side in finding.sides[:_MOST_SIDES] for r in side.ranks}
    if not shown.issuperset(finding.suspects):
        where += f"; suspect: {words.ranks(finding.suspects)}"
    return where


def _parted(page: Page, sides: Sequence[Side], sources: dict[str, SourceLine]) -> None:
    """Where ranks were when they parted, before the row of the finding."""
    for n, side in enumerate(sides):
        if side.call is None:
            continue
        if not n:
            page.line(f"call {side.call.seq}, where the ranks parted", indent=INDENT)
        who = Text.assemble((words.ranks(side.ranks), "bold"), f": {text.name(side.call)}")
        page.prose(who, indent=INDENT, hang=INDENT)
        caller = side.site if side.site != side.call.site else None
        _lines_of(page, side.call, sources, [caller] if caller else ())
        if n == len(sides) - 1:
            page.line()


def _side(page: Page, finding: Finding, side: Side, sources: dict[str, SourceLine]) -> None:
    members = f"rank{'s' * (len(side.ranks) != 1)} {words.ranges(side.ranks)}"
    who = Text.assemble((members, "bold"), f": {text.STATES[side.state]}")
    if side.ranks and set(side.ranks) <= set(finding.suspects):
        who.append("  <- suspect", "bold red")
    page.prose(who, indent=INDENT, hang=INDENT)
    if side.call is None:
        if any(other.call is not None for other in finding.sides):
            page.line(sidebyside.NO_CALL, indent=2 * INDENT)
        if side.site is not None:
            _place_of(page, side.site, sources)
        return
    c = side.call
    told = text.call(c)
    if finding.group is not None and c.group != finding.group.name:
        told += f", call {c.seq} of {text.named_group(c.group)}"
    elif finding.seq is not None and c.seq != finding.seq and c.op not in POINT_TO_POINT:
        told += f", call {c.seq}"
    page.prose(told, indent=2 * INDENT, hang=INDENT)
    issuer = text.issuer(c)
    if issuer:
        page.prose(issuer, indent=2 * INDENT, hang=INDENT)
    _lines_of(page, c, sources, text.callers(side, sources))


def _lines_of(
    page: Page, c: Call, sources: dict[str, SourceLine], callers: Iterable[str] = ()
) -> None:
    """The line of a call, and those of callers."""
    if c.site is not None:
        _place_of(page, c.site, sources)
    if c.via is not None:
        page.line(f"via {text.site(c.via)}", indent=2 * INDENT)
    for caller in callers:
        _place_of(page, caller, sources, how="called from ")


def _place_of(page: Page, site: str, sources: dict[str, SourceLine], how: str = "") -> None:
    """A line of the user's code, and what stands there."""
    spot = Text.assemble(how, (text.site(site), "cyan"))
    known = sources.get(site)
    source = text.clean(known.text.strip()) if known is not None else ""
    if source and 2 * INDENT + len(spot) + 3 + len(source) <= page.width:
        spot.append(f"   {source}")
        source = ""
    page.line(spot, indent=2 * INDENT)
    if source:
        page.prose(source, indent=4 * INDENT)
    around = (known.enclosing or ()) if known is not None else ()
    for line in around[-_MOST_AROUND:]:
        number, _, statement = line.partition(" ")
        page.prose(
            Text(f"in line {number}: {text.clean(statement.strip())}", "dim"),
            indent=3 * INDENT,
            hang=INDENT,
        )


def _table(page: Page, finding: Finding, table: Table, ranks: Sequence[RankState]) -> None:
    rows = sidebyside.rows(table)
    ends = _ends(finding, table, ranks)
    order = by_blame(table, finding.suspects)
    two = _chosen(order, _FEWEST_COLUMNS)
    file = sidebyside.only_file(table)
    if file and not page.fits(_lines(page, table, two, rows, ends), indent=INDENT, fixed=3):
        rows = sidebyside.rows(table, without=file)
        page.line(Text(f"lines of {file}", "dim"), indent=INDENT)
    for most in range(min(_MOST_COLUMNS, len(table.columns)), 0, -1):
        lines = _lines(page, table, _chosen(order, most), rows, ends)
        if most <= _FEWEST_COLUMNS or page.fits(lines, indent=INDENT, fixed=3):
            break
    page.columns(lines, indent=INDENT, fixed=3)
    rest = [r for n in order[most:] for r in table.columns[n]]
    if rest:
        page.line(f"not shown: {words.ranks(rest)} (see --json)", indent=INDENT)


def by_blame(table: Table, suspects: Sequence[int]) -> list[int]:
    """Indices of the columns, the first to keep first: one with suspects in it is never cut."""
    columns = range(len(table.columns))
    guilty = [n for n in columns if set(table.columns[n]) & set(suspects)][:1]
    return guilty + [n for n in columns if n not in guilty]


def _chosen(order: Sequence[int], most: int) -> list[int]:
    """The columns that are shown, in their own order."""
    return sorted(order[:most])


def _lines(
    page: Page,
    table: Table,
    chosen: Sequence[int],
    rows: Sequence[sidebyside.Row],
    ends: Sequence[str],
) -> list[tuple[list[list[Text]], str]]:
    header = ["", "call", "", *(words.ranks(table.columns[n]) for n in chosen)]
    lines: list[tuple[list[list[Text]], str]] = [([[Text(cell)] for cell in header], "bold")]
    # How wide a cell may be before it is better told on two lines: an even share of the page.
    even = (page.width - 32) // max(len(chosen), 1)
    digits = max(len("call"), *(len(row.seq) for row in rows)) if rows else 0
    for row in rows:
        cells = [[Text(row.mark)], [Text(row.seq.rjust(digits))], [Text(row.shared)]]
        cells += [[Text(part) for part in c.lines(even)] for c in _pick(row.cells, chosen)]
        lines.append((cells, _ROW_STYLE.get(row.mark, "" if row.cells else "dim")))
    if ends:
        end = ["", "", "then", *_pick(ends, chosen)]
        lines.append(([[Text(cell)] for cell in end], "dim"))
    return lines


def _pick(cells: Sequence[T], chosen: Sequence[int]) -> list[T]:
    """The cells of the columns that are shown; a gap has none."""
    return [cells[n] for n in chosen if n < len(cells)]


def _ends(finding: Finding, table: Table, ranks: Sequence[RankState]) -> list[str]:
    """What became of the ranks of each column; nothing where the table ends before their calls."""
    states = {rank.rank: rank for rank in ranks}
    last = table.rows[-1].seq if table.rows else 0
    group = finding.group.name if finding.group is not None else None
    ends = []
    for column in table.columns:
        known = [states[rank] for rank in column if rank in states]
        if any(
            r.last_call is not None and r.last_call.group == group and r.last_call.seq > last
            for r in known
        ):
            ends.append("..")
        else:
            ends.append(", ".join(dict.fromkeys(text.STATES[rank.state] for rank in known)))
    return ends if any(ends) else []


def _labelled(page: Page, label: str, prose: str, *, depth: int = 0) -> None:
    if prose:
        indent = LABEL + depth * INDENT
        style = _LABEL_STYLE.get(label, "bold")
        lines = text.clean(prose, lines=True)
        page.prose(lines, indent=indent, label=label.ljust(LABEL - 4), style=style)


def _effects(findings: Sequence[Finding], cause: int) -> list[int]:
    """Indices of the findings that followed from one; its like in other groups are told with it."""
    return [
        n
        for n in range(len(findings))
        if cause_of(findings, n) == cause and not is_repeated(findings, n)
    ]


def _consequences(page: Page, findings: Sequence[Finding], cause: int, *, depth: int) -> None:
    """What followed from a finding: the first told whole, of the others the headline."""
    effects = _effects(findings, cause)
    for n in effects[:_MOST_EFFECTS]:
        finding = findings[n]
        at = "" if finding.seq is None else f" at call {finding.seq}"
        spot = f"{finding.kind}{at}"
        if finding.group is not None and finding.group != findings[cause].group:
            spot += f" of {text.group(finding.group)}"
        told = f"{finding.headline} ({spot})"
        if n == effects[0]:
            told += f"\n{finding.cause}"
        _labelled(page, "led to", told, depth=depth)
        _consequences(page, findings, n, depth=depth + 1)
    if len(effects) > _MOST_EFFECTS:
        more = words.counted(len(effects) - _MOST_EFFECTS, "more consequence")
        _labelled(page, "led to", f"{more}, in --json", depth=depth)


def _remark(page: Page, findings: Sequence[Finding], n: int, *, whole: bool) -> None:
    """A finding beside the errors; ``whole``: there are none, so this is what there is to say."""
    finding = findings[n]
    severity = (f"{finding.severity}: ", _SEVERITY_STYLE[finding.severity])
    head = Text.assemble(severity, text.clean(finding.headline))
    page.prose(head, indent=INDENT, hang=INDENT)
    if finding.severity == "info" and not whole:
        return
    for side in finding.sides[:_MOST_SIDES]:
        if side.call is not None and side.call.site is not None:
            spot = f"{words.ranks(side.ranks)}: {text.call(side.call)}, {text.site(side.call.site)}"
            page.prose(spot, indent=2 * INDENT, hang=INDENT)
    _explanation(page, finding, depth=1)
    _consequences(page, findings, n, depth=1)
