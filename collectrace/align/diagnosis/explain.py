"""Judged candidates in words: what happened, why, and what to change. Built from evidence only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from collectrace import words
from collectrace.align.diagnosis import absence, lines, loop, mismatch, table, together
from collectrace.align.diagnosis.wording import Wording, called
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.matching.comparison import Divergence
from collectrace.align.reading.evidence import GroupConflict
from collectrace.findings import MISMATCHES, Finding, SourceLine, Table

_MOST_SOURCES: Final = 12
_MOST_ITERATIONS: Final = 4


def findings(case: Case, judged: Sequence[Candidate], context: int) -> list[Finding]:
    """A finding for every candidate, in the same order. ``context``: rows before and after."""
    index = {id(candidate): n for n, candidate in enumerate(judged)}
    out = []
    for candidate in judged:
        wording = _word(case, candidate)
        cause = candidate.cause
        out.append(
            Finding(
                kind=candidate.kind,
                severity=candidate.severity,
                headline=wording.headline,
                cause=wording.cause,
                fix=wording.fix,
                group=candidate.group,
                seq=candidate.seq,
                sides=candidate.sides,
                suspects=tuple(sorted(candidate.suspects)),
                caused_by=index.get(id(cause)) if cause is not None else None,
                notes=(*wording.notes, *_notes(case, candidate)),
                table=_table(case, candidate, judged, context),
                sources=_sources(case, candidate),
            )
        )
    return out


def _word(case: Case, candidate: Candidate) -> Wording:
    if candidate.kind == "group_mismatch" or candidate.stream is None:
        if candidate.kind in ("p2p_unmatched", "p2p_mismatch"):
            return absence.message(case, candidate)
        if candidate.kind == "deadlock":
            return together.deadlock(case, candidate)
        return together.conflict(case, candidate)
    if candidate.kind == "deadlock":
        return together.deadlock(case, candidate)
    if candidate.kind == "stall":
        return together.stall(case, candidate)
    if candidate.kind in MISMATCHES:
        return mismatch.explain(case, candidate)
    return absence.explain(case, candidate)


def _table(
    case: Case, candidate: Candidate, judged: Sequence[Candidate], context: int
) -> Table | None:
    """Of a row that is no consequence of another row of its stream, which shows it already."""
    if not isinstance(candidate.source, Divergence) or candidate.mark == "fatal":
        return None
    fatal = next((c for c in judged if c.stream == candidate.stream and c.mark == "fatal"), None)
    return table.around(case, candidate, fatal, context)


def _sources(case: Case, candidate: Candidate) -> tuple[SourceLine, ...]:
    """The lines of the calls, of what was asked for, and of what was raised instead."""
    sites = [call.site for _, call in called(candidate)]
    if isinstance(candidate.source, GroupConflict):
        sites += [group.site for _, group in candidate.source.variants if group is not None]
    for rank in {*candidate.absent, *candidate.suspects}:
        log = case.log(rank)
        sites.append(log.exit.site if log is not None and log.exit is not None else None)
    found = (lines.of_site(site) for site in dict.fromkeys(sites))
    return tuple(line for line in found if line is not None)[:_MOST_SOURCES]


def _notes(case: Case, candidate: Candidate) -> list[str]:
    """Observations that blame nobody: the place in the loop, the pattern that was left."""
    source = candidate.source
    if not isinstance(source, Divergence) or candidate.mark == "fatal":
        return []
    notes = []
    if source.gap is not None:
        notes.append(
            f"A log has lost calls {source.gap[0]} to {source.gap[1]}, in which the ranks differ "
            "already: the root cause lies there, and this is only the first row that can be seen."
        )
    here = _in_loop(case, candidate)
    if here:
        notes.append(here)
    if candidate.unknown and candidate.severity == "error":
        notes.append(f"Nothing is known here of {words.ranks(candidate.unknown)}.")
    return notes


def _in_loop(case: Case, candidate: Candidate) -> str:
    sides = called(candidate)
    if candidate.stream is None or candidate.seq is None or not sides:
        return ""
    parts = []
    found: dict[int, list[int]] = {}
    for s, c in sides:
        if c.iteration is not None:
            found.setdefault(c.iteration, []).extend(s.ranks)
    if len(found) == 1:
        parts.append(f"DDP iteration {min(found)}")
    elif found:
        told = [f"{n} on {words.ranks(ranks)}" for n, ranks in sorted(found.items())]
        parts.append(f"DDP iteration {', '.join(told[:_MOST_ITERATIONS])}")
    before = [loop.before(case, s.ranks[0], candidate.stream, candidate.seq) for s, _ in sides]
    periods = {b.period for b in before if b is not None}
    left = [
        s.ranks
        for (s, c), b in zip(sides, before, strict=True)
        if b is not None and loop.token(c) != loop.token(b.expected)
    ]
    suspects = set(candidate.suspects)
    main = next((b for b in before if b is not None), None)
    if main is not None and len(periods) == 1 and main.period > 1:
        parts.append(
            f"the {words.ordinal(main.position)} of {main.period} calls in each round of the loop, "
            f"after {words.counted(main.rounds, 'equal round')}"
        )
        who = {r for ranks in left for r in ranks}
        # Who goes on as before may be the one to blame: then this would only mislead.
        if len(left) < len(sides) and who and (not suspects or who <= suspects):
            parts.append(f"{words.ranks(who)} left that pattern here")
    return words.upper("; ".join(parts)) + "." if parts else ""
