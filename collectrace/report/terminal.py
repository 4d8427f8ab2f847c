"""The report for people: which collective, which rank, which line, why, and what to change.

It must be readable at 80 columns, without colour and in a pipe: what colour says, a word says too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, TextIO, TypeVar

from rich.console import Console
from rich.text import Text

from collectrace import words
from collectrace.findings import (
    KINDS,
    Alignment,
    Ended,
    Finding,
    RankState,
    Side,
    SourceLine,
    State,
    Table,
)
from collectrace.ops import POINT_TO_POINT
from collectrace.records import Call
from collectrace.report import sidebyside, text
from collectrace.report.layout import Page

T = TypeVar("T")

_INDENT: Final = 2
_LABEL: Final = 10
"""Where the text behind a label begins."""

_WHOLE: Final = 3
"""Errors without a cause of their own that are told in full; of the rest the headline."""

_MOST_SIDES: Final = 6
_MOST_EFFECTS: Final = 4
_MOST_AROUND: Final = 3
"""Statements around a line that are shown, the innermost."""

_MOST_COLUMNS: Final = 4
_FEWEST_COLUMNS: Final = 2
_MOST_STATES: Final = 8

_LONGEST_DETAIL: Final = 200
"""Characters of an exception's text: its end is mostly advice; the log holds it whole."""

_NUMBER: Final = re.compile(r"\d+")
"""Ports and seconds: details that differ in nothing else are told once."""

_STATUS_STYLE: Final = {"aligned": "green", "diverged": "red", "hung": "red", "unknown": "yellow"}
_SEVERITY_STYLE: Final = {"error": "bold red", "warning": "yellow", "info": "cyan"}
_ROW_STYLE: Final = {sidebyside.MARKS["root"]: "bold red", sidebyside.MARKS["fatal"]: "red"}

_STATE: Final[dict[State, str]] = {
    "finished": "finished",
    "raised": "raised an exception",
    "blocked": "waiting",
    "busy": "busy",
    "died": "died",
    "silent": "no sign of life",
    "running": "running",
    "missing": "left no file",
}

_LABEL_STYLE: Final = {"fix": "bold green", "note": "dim"}

_ENDED: Final[dict[Ended, str]] = {
    "exit": "",
    "signal": "killed by a signal",
    "gone": "its process is gone",
    "alive": "still alive",
}


def write(alignment: Alignment, out: TextIO) -> None:
    """Write the report; a terminal's width and colours are followed, elsewhere it is plain."""
    render(alignment, Console(file=out))


def render(alignment: Alignment, console: Console) -> None:
    """Write the report to a console, whose width and colours it follows."""
    page = Page(console)
    findings = alignment.findings
    causes = [n for n in range(len(findings)) if _cause(findings, n) is None]
    whole = [n for n in causes if findings[n].severity == "error"][:_WHOLE]
    for n in whole:
        _error(page, alignment, n)
        page.line()
    others = [n for n in causes if n not in whole and findings[n].kind != "evidence_gap"]
    if others:
        _heading(page, "also" if whole else "noticed")
        for n in others:
            _remark(page, findings, n, whole=not whole)
        page.line()
    _ranks(page, alignment)
    _gaps(page, alignment)
    page.line(f"run {text.clean(alignment.run)}")
    page.prose(_verdict(alignment))


def _cause(findings: Sequence[Finding], n: int) -> int | None:
    """The finding that led to this one. It stands before it: nothing can go round for ever."""
    cause = findings[n].caused_by
    return cause if cause is not None and 0 <= cause < n else None


def _heading(page: Page, title: str) -> None:
    page.line(Text(title, "bold underline"))


# One finding


def _error(page: Page, alignment: Alignment, n: int) -> None:
    findings = alignment.findings
    finding = findings[n]
    page.prose(Text(text.clean(finding.headline), _SEVERITY_STYLE["error"]))
    page.prose(_place(finding), indent=_INDENT)
    page.line()
    sources = {line.site: line for line in finding.sources}
    for side in finding.sides[:_MOST_SIDES]:
        _side(page, finding, side, sources)
    if len(finding.sides) > _MOST_SIDES:
        rest = [r for side in finding.sides[_MOST_SIDES:] for r in side.ranks]
        page.line(f"and {words.ranks(rest)}, in further variants (see --json)", indent=_INDENT)
    if finding.table is not None:
        page.line()
        _table(page, finding, finding.table, alignment.ranks)
    page.line()
    _explanation(page, finding, depth=0)
    _consequences(page, findings, n, depth=0)


def _explanation(page: Page, finding: Finding, *, depth: int) -> None:
    _labelled(page, "cause", finding.cause, depth=depth)
    _labelled(page, "fix", finding.fix, depth=depth)
    _labelled(page, "note", "\n".join(finding.notes), depth=depth)


def _place(finding: Finding) -> str:
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


def _side(page: Page, finding: Finding, side: Side, sources: dict[str, SourceLine]) -> None:
    members = f"rank{'s' * (len(side.ranks) != 1)} {words.ranges(side.ranks)}"
    who = Text.assemble((members, "bold"), f": {_STATE[side.state]}")
    if side.ranks and set(side.ranks) <= set(finding.suspects):
        who.append("  <- suspect", "bold red")
    page.line(who, indent=_INDENT)
    if side.call is None:
        if any(other.call is not None for other in finding.sides):
            page.line(sidebyside.NO_CALL, indent=2 * _INDENT)
        if side.site is not None:
            _place_of(page, side.site, sources)
        return
    c = side.call
    told = text.call(c)
    if finding.group is not None and c.group != finding.group.name:
        told += f", call {c.seq} of {text.named_group(c.group)}"
    elif finding.seq is not None and c.seq != finding.seq and c.op not in POINT_TO_POINT:
        told += f", call {c.seq}"
    page.prose(told, indent=2 * _INDENT, hang=_INDENT)
    issuer = text.issuer(c)
    if issuer:
        page.prose(issuer, indent=2 * _INDENT, hang=_INDENT)
    _site(page, c, sources)


def _site(page: Page, c: Call, sources: dict[str, SourceLine]) -> None:
    if c.site is not None:
        _place_of(page, c.site, sources)
    if c.via is not None:
        page.line(f"via {text.site(c.via)}", indent=2 * _INDENT)


def _place_of(page: Page, site: str, sources: dict[str, SourceLine]) -> None:
    """A line of the user's code, and what stands there."""
    place = Text.assemble((text.site(site), "cyan"))
    known = sources.get(site)
    source = text.clean(known.text.strip()) if known is not None else ""
    if source and 2 * _INDENT + len(place) + 3 + len(source) <= page.width:
        place.append(f"   {source}")
        source = ""
    page.line(place, indent=2 * _INDENT)
    if source:
        page.prose(source, indent=4 * _INDENT)
    around = (known.enclosing or ()) if known is not None else ()
    for line in around[-_MOST_AROUND:]:
        number, _, statement = line.partition(" ")
        page.prose(
            Text(f"in line {number}: {text.clean(statement.strip())}", "dim"),
            indent=3 * _INDENT,
            hang=_INDENT,
        )


def _table(page: Page, finding: Finding, table: Table, ranks: Sequence[RankState]) -> None:
    rows = sidebyside.rows(table)
    ends = _ends(finding, table, ranks)
    order = _by_blame(table, finding.suspects)
    two = _chosen(order, _FEWEST_COLUMNS)
    file = sidebyside.only_file(table)
    if file and not page.fits(_lines(page, table, two, rows, ends), indent=_INDENT, fixed=3):
        rows = sidebyside.rows(table, without=file)
        page.line(Text(f"lines of {file}", "dim"), indent=_INDENT)
    for most in range(min(_MOST_COLUMNS, len(table.columns)), 0, -1):
        lines = _lines(page, table, _chosen(order, most), rows, ends)
        if most <= _FEWEST_COLUMNS or page.fits(lines, indent=_INDENT, fixed=3):
            break
    page.columns(lines, indent=_INDENT, fixed=3)
    rest = [r for n in order[most:] for r in table.columns[n]]
    if rest:
        page.line(f"not shown: {words.ranks(rest)} (see --json)", indent=_INDENT)


def _by_blame(table: Table, suspects: Sequence[int]) -> list[int]:
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
            ends.append(", ".join(dict.fromkeys(_STATE[rank.state] for rank in known)))
    return ends if any(ends) else []


def _labelled(page: Page, label: str, prose: str, *, depth: int = 0) -> None:
    if prose:
        indent = _LABEL + depth * _INDENT
        style = _LABEL_STYLE.get(label, "bold")
        lines = text.clean(prose, lines=True)
        page.prose(lines, indent=indent, label=label.ljust(_LABEL - 4), style=style)


def _consequences(page: Page, findings: Sequence[Finding], cause: int, *, depth: int) -> None:
    """What followed from a finding: the first told whole, of the others the headline."""
    effects = [n for n in range(len(findings)) if _cause(findings, n) == cause]
    for n in effects[:_MOST_EFFECTS]:
        finding = findings[n]
        at = "" if finding.seq is None else f" at call {finding.seq}"
        place = f"{finding.kind}{at}"
        if finding.group is not None and finding.group != findings[cause].group:
            place += f" of {text.group(finding.group)}"
        told = f"{finding.headline} ({place})"
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
    page.prose(head, indent=_INDENT, hang=_INDENT)
    if finding.severity == "info" and not whole:
        return
    for side in finding.sides[:_MOST_SIDES]:
        if side.call is not None and side.call.site is not None:
            place = (
                f"{words.ranks(side.ranks)}: {text.call(side.call)}, {text.site(side.call.site)}"
            )
            page.prose(place, indent=2 * _INDENT, hang=_INDENT)
    _explanation(page, finding, depth=1)
    _consequences(page, findings, n, depth=1)


# The run


def _ranks(page: Page, alignment: Alignment) -> None:
    if all(r.state == "finished" and r.ended == "exit" for r in alignment.ranks):
        return
    _heading(page, "ranks")
    groups: dict[tuple[str, ...], list[RankState]] = {}
    for rank in alignment.ranks:
        state, detail, last = _rank(rank)
        groups.setdefault((state, _NUMBER.sub("#", detail), last), []).append(rank)
    alike = list(groups.values())
    labels = [words.ranges([r.rank for r in one]) for one in alike]
    indent = min(max(_LABEL, max(map(len, labels)) + 2 * _INDENT), 2 * _LABEL)
    for label, one in list(zip(labels, alike, strict=True))[:_MOST_STATES]:
        if len(label) > indent - 2 * _INDENT:
            page.prose(label, indent=_INDENT)
            label = ""
        state, detail, last = _rank(one[0])
        if any(_rank(other)[1] != detail for other in one):
            detail += f" (rank {one[0].rank}; the others likewise)"
        told = "\n".join(line for line in (state, detail, last) if line)
        page.prose(told, indent=indent, label=label.ljust(indent - 2 * _INDENT) if label else "")
    rest = [r.rank for one in alike[_MOST_STATES:] for r in one]
    if rest:
        page.prose(f"{words.ranks(rest)}: in --json", indent=_INDENT)
    page.line()


def _rank(rank: RankState) -> tuple[str, str, str]:
    """What is said of a rank, in three lines: its state and end, details, its last call."""
    ended = "" if rank.state == "missing" else _ENDED[rank.ended]
    detail = " ".join(text.clean(rank.detail).split())
    detail = "" if detail == _STATE[rank.state] else detail
    if len(detail) > _LONGEST_DETAIL:
        detail = detail[: _LONGEST_DETAIL - 2] + ".."
    last, c = "", rank.last_call
    if c is not None and rank.state != "finished":
        group = text.named_group(c.group)
        of = "" if group == words.DEFAULT_GROUP else f" of {group}"
        last = f"last call: {text.clean(c.op)}{text.at(c)}, call {c.seq}{of}"
    return ", ".join(part for part in (_STATE[rank.state], ended) if part), detail, last


def _gaps(page: Page, alignment: Alignment) -> None:
    evidence = alignment.evidence
    gaps = []
    told = [_gap(f) for f in alignment.findings if f.kind == "evidence_gap"]
    if evidence.missing_ranks and not told:
        gaps.append(f"{words.ranks(evidence.missing_ranks)} left no log.")
    if evidence.damaged_lines:
        gaps.append(f"{words.counted(evidence.damaged_lines, 'line')} could not be read.")
    if evidence.dropped:
        gaps.append(f"{words.counted(evidence.dropped, 'record')} could not be written.")
    gaps += [text.clean(note) for note in evidence.notes]
    gaps += told
    if gaps:
        _heading(page, "what the logs cannot tell")
        for gap in gaps:
            page.prose(gap, indent=_INDENT, hang=_INDENT)
        page.line()


def _gap(finding: Finding) -> str:
    sentences = (text.clean(part).rstrip(".") for part in (finding.headline, finding.fix) if part)
    return ". ".join(sentences) + "."


def _verdict(alignment: Alignment) -> Text:
    status = (f"{alignment.status}: ", f"bold {_STATUS_STYLE[alignment.status]}")
    return Text.assemble(status, _summary(alignment), f" Exit status {alignment.exit_status}.")


def _summary(alignment: Alignment) -> str:
    world = words.counted(alignment.world_size, "rank")
    if alignment.status == "aligned":
        agreed = words.compared(alignment.evidence)
        return f"{agreed} on {world} agree." if agreed else f"{world} agree."
    if alignment.status == "unknown":
        alive = sum(rank.ended == "alive" for rank in alignment.ranks)
        if alive and not alignment.evidence.missing_ranks:
            calls = words.compared(alignment.evidence) or words.counted(0, "collective")
            return f"{alive} of {world} run; so far all agree ({calls})."
        return f"nothing wrong found, but the logs of {world} cannot show that all is well."
    errors = [n for n, f in enumerate(alignment.findings) if f.severity == "error"]
    effects = sum(_cause(alignment.findings, n) is not None for n in errors)
    causes = len(errors) - effects
    also = f", {words.counted(effects, 'consequence')}" if effects else ""
    first = " Start with the first: others may go with it." if causes > 1 else ""
    return f"{words.counted(causes, 'error')}{also} on {world}.{first}"
