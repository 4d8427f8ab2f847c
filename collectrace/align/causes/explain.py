"""Turn judged candidates into findings: cause, words, table, lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, ParamSpec, TypeVar

from collectrace import words
from collectrace.align.causes import choose, frameworks, iterations, remarks, repeated, table
from collectrace.align.causes.choose import Found
from collectrace.align.causes.departed import Departed
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.deciding import named
from collectrace.align.judging import evidence, places, sisters
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.departures import What
from collectrace.align.matching.comparison import Divergence
from collectrace.align.reading import chains
from collectrace.findings import KINDS, MISMATCHES, Finding, Side, SourceLine, Table

P = ParamSpec("P")
T = TypeVar("T")

_MOST_SOURCES: Final = 12


def findings(case: Case, judged: Sequence[Candidate], context: int) -> list[Finding]:
    """Return a finding for every candidate, in the same order.

    ``context``: calls that a table shows before and after a difference.
    """
    index = {candidate: n for n, candidate in enumerate(judged)}
    found = []
    for one, decided in zip(judged, named.find_decisions(case, judged), strict=True):
        again = case.faults.attempt("explanation", (), _again, case, one, judged)
        situation = Situation(case, one, decided.decisions, decided.pair, again)
        found.append(_finding(situation, judged, context, index))
    return found


def _finding(
    situation: Situation,
    judged: Sequence[Candidate],
    context: int,
    index: Mapping[Candidate, int],
) -> Finding:
    """Return the finding of a candidate, without parts of the explanation that fail."""
    case, candidate = situation.case, situation.candidate

    def explained(otherwise: T, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return case.faults.attempt("explanation", otherwise, work, *args, **kwargs)

    bare = Words(KINDS[candidate.kind].meaning, ())
    found = explained(None, choose.cause_of, situation)
    said = bare
    if found is not None:
        said = explained(bare, found.cause.words, situation, found.data)
        said = explained(said, frameworks.apply_fix, situation, found.cause.code, said)
    cause = index.get(candidate.cause) if candidate.cause is not None else None
    return Finding(
        kind=candidate.kind,
        severity=candidate.severity,
        code=found.cause.code if found is not None else None,
        headline=said.headline + explained("", repeated.suffix, situation),
        cause=" ".join(said.why),
        fix="\n".join(said.fixes),
        fixes=said.fixes or None,
        group=candidate.group,
        seq=candidate.seq,
        sides=situation.candidate.sides,
        suspects=tuple(sorted(candidate.suspects)),
        caused_by=cause,
        notes=(
            *said.notes,
            *explained((), remarks.remarks_on, situation),
            *explained([], iterations.notes, situation),
            *explained((), repeated.note, situation),
            *explained([], _notes, case, candidate),
        ),
        table=explained(None, _table, situation, judged, context),
        sources=explained((), _sources, situation),
        parted=explained(None, _diverged, situation, found),
        skipped=explained(None, _skipped, situation, found),
        repeats=cause if explained(False, repeated.is_repeat, situation) else None,
        decisions=(None if said.undecided else situation.decisions) or None,
        evidence=explained(None, evidence.evidence_rows, candidate.evidence),
    )


def _table(situation: Situation, judged: Sequence[Candidate], context: int) -> Table | None:
    """Return the calls around a root difference; its table also shows the fatal difference."""
    case, candidate = situation.case, situation.candidate
    if not isinstance(candidate.source, Divergence) or candidate.mark == "fatal":
        return None
    if candidate.kind == "lost_mismatch":
        return None  # an empty cell would mean that a rank made no call
    fatal = next((c for c in judged if c.stream == candidate.stream and c.mark == "fatal"), None)
    return table.around(case, candidate, fatal, context, _row(situation))


def _row(situation: Situation) -> int | None:
    """Return the call number at which the ranks diverged; None: the finding's, or not known."""
    departure, candidate = situation.departure, situation.candidate
    if departure is not None and departure.key == candidate.stream and departure.seq:
        return departure.seq
    since = places.first_difference(situation.case, candidate)
    return since.seq if since is not None else None


def _diverged(situation: Situation, found: Found | None) -> tuple[Side, ...] | None:
    """Return what each side did where the ranks diverged, before the finding's call."""
    departed = found.data if found is not None else None
    if isinstance(departed, Departed) and departed.what not in _MADE_NONE:
        return (_side(situation, departed),) if departed.call.site is not None else None
    case, candidate, row = situation.case, situation.candidate, _row(situation)
    is_earlier = row is not None and row < (candidate.seq or 0)
    if candidate.cause is not None or candidate.stream is None or row is None or not is_earlier:
        return None
    calls = [(side, case.call(side.ranks[0], candidate.stream, row)) for side in candidate.sides]
    stacks = [case.stack(side.ranks[0], call) if call else () for side, call in calls]
    frames = chains.outermost_apart(*stacks) if len(stacks) == 2 else [""] * len(stacks)
    return tuple(
        Side(
            ranks=side.ranks, call=call, state=side.state, stack=tuple(stack),
            site=chains.site(frame) or None,
        )
        for (side, call), stack, frame in zip(calls, stacks, frames, strict=True)
    )  # fmt: skip


_MADE_NONE: Final = (What.SKIPPED, What.ENDED)


def _skipped(situation: Situation, found: Found | None) -> Side | None:
    """Return the call that ranks of a wait cycle skipped, as they made it before."""
    departed = found.data if found is not None else None
    if not isinstance(departed, Departed) or departed.what not in _MADE_NONE:
        return None
    return _side(situation, departed) if departed.call.site is not None else None


def _side(situation: Situation, departed: Departed) -> Side:
    side = situation.case.side(departed.ranks[0], departed.call)
    return replace(side, ranks=departed.ranks)


def _sources(situation: Situation) -> tuple[SourceLine, ...]:
    """Return the source lines of the calls, with their text if it was recorded."""
    case, found = situation.case, dict[str, SourceLine]()
    for side, call in situation.called:
        for site in (call.site, side.call.site if side.call is not None else None, side.site):
            path, line = chains.split(site)
            file = case.program.files.file(side.ranks[0], path) if site else None
            if site is not None and site not in found and file is not None:
                found[site] = SourceLine(site=site, text=file.line(line))
    return tuple(found.values())[:_MOST_SOURCES]


def _again(case: Case, candidate: Candidate, judged: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Return candidates that repeat this error in other groups or messages."""
    if candidate.cause is not None:
        return ()
    effects = (one for one in judged if one.cause is candidate)
    return tuple(one for one in effects if sisters.repeats(case, candidate, one))


def _notes(case: Case, candidate: Candidate) -> list[str]:
    """Return observations that blame nobody."""
    source, notes = candidate.source, list[str]()
    if not isinstance(source, Divergence) or candidate.mark == "fatal":
        return notes
    if source.gap is not None and candidate.kind != "lost_mismatch":
        notes.append(
            f"A log has lost calls {source.gap[0]} to {source.gap[1]}, and the digests over them "
            "differ already. The root cause may lie there: this is the first difference that can "
            "be seen."
        )
    if candidate.unknown and candidate.severity == "error":
        notes.append(f"Nothing is known here of {words.ranks(candidate.unknown)}.")
    return notes + _aborted(case, candidate)


def _aborted(case: Case, candidate: Candidate) -> list[str]:
    """Return a note that gloo ended processes of the group, as it does if sizes do not match."""
    group = candidate.group
    if candidate.kind not in (*MISMATCHES, "p2p_mismatch") or candidate.cause or group is None:
        return []
    standings = [one for rank in group.ranks if (one := case.standings.get(rank)) is not None]
    ends = [(one.rank, one.log.stack_dumps.end) for one in standings if one.state == "died"
            and one.log is not None]  # fmt: skip
    died = [rank for rank, end in ends if end is not None and end.fatal == "Aborted"]
    if not died or "gloo" not in group.backend:
        return []
    return [
        "gloo aborts a process that receives more bytes than it expects. That ended "
        f"{words.ranks(died)}."
    ]
