"""The text of one finding, as blocks that the terminal, Markdown and the page show.

Everything in a document is safe to show: all text from a log has passed through ``clean``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from collectrace import words
from collectrace.findings import (
    Alignment,
    Excerpt,
    Finding,
    RankState,
    Severity,
    Side,
    cause_of,
    is_repeated,
)
from collectrace.ops import POINT_TO_POINT
from collectrace.report import tables, text
from collectrace.report.nearby import Places
from collectrace.report.tables import Grid

_MOST_FIXES: Final = 3
_MOST_SIDES: Final = 6
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

    @property
    def indentation(self) -> str:
        """Return the spaces before the text."""
        return self.text[: len(self.text) - len(self.text.lstrip())]


@dataclass(frozen=True, slots=True)
class Listing:
    """Lines of one function."""

    heading: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Prose:
    """Sentences after a label. Lines that are indented by four spaces are code."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Remark:
    """A sentence below the lines of the program."""

    text: str


Block = Listing | Remark | Grid | Prose


@dataclass(frozen=True, slots=True)
class Document:
    """The report's text about one finding."""

    severity: Severity
    code: str
    headline: str
    blocks: tuple[Block, ...] = field(default=())

    @property
    def title(self) -> str:
        """Return ``error[CT102]``; ``error:`` for a finding without a code."""
        return f"{self.severity}[{self.code}]" if self.code else f"{self.severity}:"


def document(alignment: Alignment, n: int) -> Document:
    """Return the text of a finding: lines, values, which calls met, why, fix, what followed."""
    finding = alignment.findings[n]
    blocks: list[Block] = [*listings(finding), *_absent(alignment, finding)]
    suspects = words.ranks(finding.suspects) if finding.suspects else ""
    if suspects not in finding.headline.lower():
        blocks.append(Remark(f"suspect: {suspects}"))
    blocks += tables.stacks(finding)
    blocks += [one for one in (tables.values(finding), tables.meetings(finding)) if one is not None]
    blocks += explanation(finding)
    blocks += [Prose("then", told) for told in _followed(alignment, n)]
    return titled(finding, tuple(blocks))


def titled(finding: Finding, blocks: tuple[Block, ...] = ()) -> Document:
    """Return a document with the title and headline of a finding, and these blocks."""
    headline = words.brief(text.clean(finding.headline), _LONGEST_HEADLINE)
    return Document(finding.severity, text.clean(finding.code or ""), headline, blocks)


# -- where -----------------------------------------------------------------------------------


def listings(finding: Finding) -> list[Listing]:
    """Return the finding's excerpt of the program; if it has none, the lines of its calls."""
    if finding.excerpt:
        paths = [one.path for one in finding.excerpt]
        return [
            _listing(one, (text.short_site if one.path in paths[:n] else text.site)(one.path))
            for n, one in enumerate(finding.excerpt)
        ]
    sources = {line.site: line.text for line in finding.sources}
    by_file: dict[str, list[Row]] = {}
    for side in (*(finding.parted or ()), *finding.sides)[:_MOST_SIDES]:
        site = (side.call.site if side.call is not None else side.site) or ""
        path, _, number = site.rpartition(":")
        note = f"{words.ranks(side.ranks)}: {_called(side)}"
        row = Row(text.clean(number), text.clean(sources.get(site, "").strip()), "call", (note,))
        if path or side.call is not None:
            by_file.setdefault(text.site(path), []).append(row)
    return [Listing(file, tuple(rows)) for file, rows in by_file.items()]


def _listing(excerpt: Excerpt, file: str) -> Listing:
    name = text.clean(excerpt.function)
    heading = file + (f", {name}()" if _is_function(name) else "")
    if excerpt.library is not None:
        heading = f"in {text.clean(excerpt.library)}: {heading}"
    if excerpt.callers:
        callers = [_caller(one, excerpt.path) for one in reversed(excerpt.callers[-_MOST_SIDES:])]
        of = excerpt.callers_of
        whose = f" by {words.ranks(of)}" if of else ""
        heading += f", called{whose} from {', '.join(callers)}"
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
    """Return ``main() at line 40`` for a frame in this file, or ``main() at train.py:40``."""
    site, _, function = frame.rpartition(" ")
    file, _, number = site.rpartition(":")
    place = f"line {text.clean(number)}" if file == path else text.short_site(site)
    return f"{text.clean(function)}() at {place}" if _is_function(function) else place


def _called(side: Side) -> str:
    c = side.call
    if c is None:
        return text.STATES[side.state]
    issuer = text.issuer(c)
    numbered = "message" if c.op in POINT_TO_POINT else "call"
    return f"{numbered} {c.seq}, {text.call(c)}{f' ({issuer})' if issuer else ''}"


_GONE: Final = ("finished", "died", "missing", "silent", "raised")


def _absent(alignment: Alignment, finding: Finding) -> Iterator[Remark]:
    """Yield how the ranks ended that did not call what the others called."""
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


# -- why, fix, and what followed -------------------------------------------------------------


def explanation(finding: Finding) -> list[Prose]:
    """Return why it happened, and what to change: the best fix first."""
    places = Places(finding)
    cause = places.brief(text.clean(finding.cause, lines=True))
    found = [Prose("why", cause)] if cause else []
    fixes = finding.fixes or ((finding.fix,) if finding.fix else ())
    for n, fix in enumerate(fixes[:_MOST_FIXES]):
        told = places.brief(text.clean(fix, lines=True))
        found.append(Prose("" if n else "fix", _alternative(told) if n else told))
    return found


def _alternative(fix: str) -> str:
    """Return ``Or raise on every rank.``; a fix that begins with a name keeps its capitals."""
    first = fix.partition(" ")[0]
    if first in ("Or", "Or,"):
        return fix
    if first == "If":
        return f"Or, {words.lower(fix)}"
    return f"Or {words.lower(fix)}" if first.isalpha() and first[1:].islower() else f"Or: {fix}"


def _followed(alignment: Alignment, n: int) -> Iterator[str]:
    """Yield what followed from a finding: the next error, and the ranks that died or raised."""
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
    told = list[str]()
    if died := [one for one in alignment.ranks if one.state == "died" and one.rank not in absent]:
        fatal = {text.clean(one.detail).partition("fatal error: ")[2] for one in died}
        how = f" ({fatal.pop()})" if len(fatal) == 1 and "" not in fatal else ""
        told.append(f"{words.ranks(one.rank for one in died)} died{how}")
    for those in by_type.values():
        who = words.ranks(rank.rank for rank in those)
        reasons = {text.NUMBER.sub("#", _reason(rank)) for rank in those}
        first = f"rank {those[0].rank}: " if len(reasons) > 1 else ""
        told.append(f"{who} raised {_reason(those[0], first) or 'an exception'}")
    if told:
        yield words.listed(told[:_MOST_FIXES])


def _reason(rank: RankState, before: str = "") -> str:
    """Return ``RuntimeError (timed out)`` for a rank's exception; the text begins ``before``."""
    error, _, message = text.clean(rank.detail).partition(": ")
    text_, _, place = message.rpartition(" at ")
    message = words.brief(text_ if ":" in place else message, _LONGEST_REASON)
    return f"{error} ({before}{message})" if message else error
