"""The report with all details of each finding and of every rank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final, TextIO

from rich.console import Console

from collectrace import words
from collectrace.findings import (
    KINDS,
    Alignment,
    Decision,
    EvidenceRow,
    Finding,
    Strength,
    cause_of,
    is_repeated,
)
from collectrace.report import ending, opening, tables, terminal, text
from collectrace.report.document import (
    Block,
    Listing,
    Prose,
    Remark,
    Row,
    document,
    explanation,
    titled,
)
from collectrace.report.layout import INDENT, Page
from collectrace.report.tables import Grid

_MOST_DECISIONS: Final = 12
_MOST_NAMES: Final = 6
_MOST_EVIDENCE: Final = 40
_MOST_FINDINGS: Final = 40
_MOST_DEPTH: Final = 8

_STRENGTH: Final[Mapping[Strength, str]] = {
    "only": "the only statement that can have decided",
    "confirmed": "decided, as recorded values confirm",
    "equal": "may have decided, though all recorded values are equal",
    "possible": "may have decided",
}


def write(alignment: Alignment, out: TextIO) -> None:
    """Write the whole report: with a terminal's width and colours, or plain if ``out`` is none."""
    page = Page(Console(file=out))
    opening.show(page, alignment)
    roots = [n for n in range(len(alignment.findings)) if cause_of(alignment.findings, n) is None]
    for n in roots[:_MOST_FINDINGS]:
        if alignment.findings[n].kind != "evidence_gap":
            told = document(alignment, n)
            terminal.title(page, told)
            for some in (told.blocks, list(blocks(alignment, n))):
                terminal.blocks(page, some)
            page.line()
            _consequences(page, alignment, n, 0)
    terminal.remarks(page, alignment, roots[_MOST_FINDINGS:])
    closing(page, alignment)


def closing(page: Page, alignment: Alignment) -> None:
    """Write what every rank was doing, what the logs do not show, and the verdict."""
    terminal.grid(page, ending.states(alignment))
    page.line()
    for gap in ending.gaps(alignment):
        page.prose(f"note: {gap}", hang=INDENT)
    ending.internal_errors(page, alignment)
    page.prose(ending.run(alignment), hang=INDENT)
    page.prose(ending.verdict(alignment))


def blocks(alignment: Alignment, n: int) -> Iterator[Block]:
    """Yield the blocks that the short form of a finding lacks."""
    finding = alignment.findings[n]
    yield Remark(place(finding))
    table = tables.side_by_side(finding)
    if table is not None:
        yield table
    yield from details(finding)


def details(finding: Finding) -> Iterator[Block]:
    """Yield the finding's notes, the evidence for its suspects, and the decisions before it."""
    if finding.notes:
        yield Prose("note", text.clean("\n".join(finding.notes), lines=True))
    if finding.evidence:
        rows = tuple(_evidence(row) for row in finding.evidence[:_MOST_EVIDENCE])
        yield Grid("evidence", ("blame", "ranks", "what is known about these ranks"), rows)
    for one in (finding.decisions or ())[:_MOST_DECISIONS]:
        yield _decision(one)


def _decision(one: Decision) -> Listing:
    """Return a statement at which ranks may have branched differently."""
    path, _, number = one.site.rpartition(":")
    library = f" (in {text.clean(one.library)})" if one.library is not None else ""
    notes = []
    for n, side in enumerate(one.sides):
        # A rank may be compared with itself in an earlier iteration.
        usual = " usually" if side.rank in [other.rank for other in one.sides[:n]] else ""
        held = [
            f"`{text.clean(name)}` is {tables.value(value)}"
            for name, value in list((side.values or {}).items())[:_MOST_NAMES]
        ]
        # That a line computed a value says nothing.
        did = [] if side.did == "value" else [text.clean(words.outcome(side))]
        if told := "; ".join([*did, *held]):
            notes.append(f"rank {side.rank}{usual}: {told}")
    origins = words.listed([words.ORIGINS[origin] for origin in one.depends_on])
    notes.append(f"{_STRENGTH[one.strength]}; depends on {origins}")
    if one.read_later:
        later = [f"`{text.clean(name)}`" for name in one.read_later[:_MOST_NAMES]]
        notes.append(f"read later, may have changed: {words.listed(later)}")
    row = Row(text.clean(number), text.clean(one.text), "", tuple(notes))
    heading = f"decision in {text.site(path)}, {text.clean(one.function)}{library}"
    return Listing(heading, (row,))


def _evidence(row: EvidenceRow) -> tuple[str, ...]:
    told = text.clean(row.says or row.fact)
    sites = ", ".join(text.short_site(site) for site in row.sites or ())
    if sites:
        told += f" {sites}"
    return row.speaks, words.ranges(row.ranks), told


def place(finding: Finding) -> str:
    """Return call, group, suspects and kind of a finding, in words."""
    blamed = words.ranks(finding.suspects) if finding.suspects else "nobody"
    told = [where(finding), f"to blame: {blamed}", f"kind: {finding.kind}"]
    return "; ".join(filter(None, told))


def where(finding: Finding) -> str:
    """Return call and group of a finding, in words."""
    found = []
    if finding.seq is not None and finding.kind != "group_mismatch":
        # Messages are numbered per channel, calls per group.
        numbered = "message" if KINDS[finding.kind].family == "message" else "call"
        found.append(f"at {numbered} {finding.seq}")
    if finding.group is not None:
        found.append(f"{'of' if found else 'in'} {text.whole_group(finding.group)}")
    return " ".join(found)


def _consequences(page: Page, alignment: Alignment, cause: int, depth: int) -> None:
    """Write the consequences of a finding, without repeats of them in other groups."""
    findings = alignment.findings
    for n, finding in enumerate(findings):
        if cause_of(findings, n) != cause or is_repeated(findings, n) or depth > _MOST_DEPTH:
            continue
        terminal.title(page, titled(finding))
        page.prose(f"a consequence of the finding above, {place(finding)}", hang=INDENT)
        # There is no excerpt above these, so places stay complete.
        terminal.blocks(page, explanation(replace(finding, excerpt=None)))
        page.line()
        _consequences(page, alignment, n, depth + 1)
