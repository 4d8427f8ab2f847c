"""The report with all that is known of each finding, and of every rank."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TextIO

from rich.console import Console

from collectrace import words
from collectrace.findings import KINDS, Alignment, EvidenceRow, Finding, cause_of, is_repeated
from collectrace.report import decisions, ending, opening, terminal, text
from collectrace.report.document import (
    Block,
    Grid,
    Listing,
    Prose,
    Remark,
    Row,
    document,
    explanation,
    full_table,
    titled,
)
from collectrace.report.layout import INDENT, Page

_MOST_DECISIONS: Final = 12
_MOST_EVIDENCE: Final = 40
_MOST_FINDINGS: Final = 40
_MOST_DEPTH: Final = 8


def write(alignment: Alignment, out: TextIO) -> None:
    """Write the whole report; a terminal's width and colours are followed."""
    page = Page(Console(file=out))
    opening.show(page, alignment)
    if alignment.ranks:
        page.prose(opening.states(alignment.ranks), indent=INDENT, hang=INDENT)
        page.line()
    roots = [n for n in range(len(alignment.findings)) if cause_of(alignment.findings, n) is None]
    for n in roots[:_MOST_FINDINGS]:
        if alignment.findings[n].kind != "evidence_gap":
            terminal.title(page, document(alignment, n))
            terminal.blocks(page, document(alignment, n).blocks)
            terminal.blocks(page, list(blocks(alignment, n)))
            page.line()
            _consequences(page, alignment, n, 0)
    terminal.remarks(page, alignment, roots[_MOST_FINDINGS:])
    closing(page, alignment)


def closing(page: Page, alignment: Alignment) -> None:
    """Write what every rank was doing, what the logs do not show, and the verdict."""
    ending.states(page, alignment)
    told = ending.gaps(alignment)
    if told:
        page.heading("what the logs do not show")
        for gap in told:
            page.prose(gap, indent=INDENT, hang=INDENT)
        page.line()
    ending.internal_errors(page, alignment)
    page.prose(ending.run(alignment), hang=INDENT)
    page.prose(ending.verdict(alignment))


def blocks(alignment: Alignment, n: int) -> Iterator[Block]:
    """Return what is not in the short form of a finding."""
    finding = alignment.findings[n]
    yield Remark(place(finding))
    table = full_table(finding)
    if table is not None:
        yield table
    yield from details(finding)


def details(finding: Finding) -> Iterator[Block]:
    """Return its notes, the evidence for whom it blames, and what can have decided."""
    if finding.notes:
        yield Prose("note", text.clean("\n".join(finding.notes), lines=True))
    if finding.evidence:
        rows = tuple(_evidence(row) for row in finding.evidence[:_MOST_EVIDENCE])
        yield Grid("evidence", ("fact", "", "ranks", "weight", "where"), rows)
    decided = (finding.decisions or ())[:_MOST_DECISIONS]
    if decided:
        yield Remark("statements that can have sent the ranks different ways")
    for one in decided:
        path, _, number = one.site.rpartition(":")
        library = f" (in {text.clean(one.library)})" if one.library is not None else ""
        row = Row(text.clean(number), text.clean(one.text), "", tuple(decisions.described(one)))
        yield Listing(f"{text.site(path)}, {text.clean(one.function)}{library}", (row,))


def _evidence(row: EvidenceRow) -> tuple[str, ...]:
    sites = ", ".join(text.short_site(site) for site in row.sites or ())
    who = words.ranges(row.ranks)
    return text.clean(row.fact), f"{row.speaks} blame", who, str(row.weight), sites


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
    suspects = words.ranks(finding.suspects) if finding.suspects else "none"
    return f"{where}; suspects: {suspects}"


def _consequences(page: Page, alignment: Alignment, cause: int, depth: int) -> None:
    """Write what followed from a finding; what is the same in other groups is told with it."""
    findings = alignment.findings
    for n, finding in enumerate(findings):
        if cause_of(findings, n) != cause or is_repeated(findings, n) or depth > _MOST_DEPTH:
            continue
        page.prose(f"led to: {place(finding)}", hang=INDENT)
        terminal.title(page, titled(finding))
        terminal.blocks(page, explanation(finding))
        page.line()
        _consequences(page, alignment, n, depth + 1)
