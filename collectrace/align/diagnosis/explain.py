"""From judged candidates to findings: the words, the table of rows, the lines of code."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, ParamSpec, TypeVar

from collectrace import words
from collectrace.align.causes import choose, frameworks
from collectrace.align.causes.situation import Situation
from collectrace.align.deciding import named
from collectrace.align.diagnosis import (
    absence,
    by_framework,
    callers,
    caught,
    conditions,
    conflict,
    deadlock,
    empty_message,
    loop,
    lost,
    message_round,
    messages,
    mismatch,
    on_the_way,
    other_end,
    sisters,
    slip,
    stall,
    standpoint,
    table,
)
from collectrace.align.diagnosis.wording import GLOO_ABORTS, Wording, called, models_of, place
from collectrace.align.judging import evidence
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.models import of_one_model
from collectrace.align.judging.parted import parted
from collectrace.align.matching.comparison import ChannelIssue, Divergence
from collectrace.align.ranks.standing import failure
from collectrace.align.reading import chains, statements
from collectrace.align.reading.evidence import GroupConflict, RankLog
from collectrace.findings import KINDS, MISMATCHES, Finding, Kind, Side, SourceLine, Table
from collectrace.records import DDP_FORWARD, NATIVE, Call

P = ParamSpec("P")
T = TypeVar("T")

_MOST_SOURCES: Final = 12
_MOST_ITERATIONS: Final = 4
_APART: Final = 2_000_000_000
"""ns between two moments that are worth telling apart."""


EXPLAINERS: Final[dict[Kind, Callable[[Case, Candidate], Wording]]] = {
    **dict.fromkeys(MISMATCHES, mismatch.explain),
    "lost_mismatch": lost.explain,
    "group_mismatch": conflict.explain,
    "missing_call": absence.explain,
    "p2p_mismatch": messages.explain,
    "p2p_unmatched": messages.explain,
    "deadlock": deadlock.explain,
    "stall": stall.explain,
}
"""What words a candidate of each kind; kinds that are only observed are not judged."""


def findings(case: Case, judged: Sequence[Candidate], context: int) -> list[Finding]:
    """A finding for every candidate, in the same order.

    ``context``: how many rows a table shows before and after a difference.
    """
    index = {candidate: n for n, candidate in enumerate(judged)}
    return [
        _worded(
            case,
            Situation(case, candidate, decided.decisions, decided.pair),
            _finding(case, candidate, judged, context, index),
        )
        for candidate, decided in zip(judged, named.decided(case, judged), strict=True)
    ]


def _worded(case: Case, situation: Situation, finding: Finding) -> Finding:
    """Return a finding with its decisions, and with the words of its cause if one is found."""
    finding = replace(finding, decisions=situation.decisions or None)
    found = case.faults.attempt("explanation", None, choose.cause_of, situation)
    said = case.faults.attempt("explanation", None, found.words, situation) if found else None
    if found is None or said is None:
        return finding
    code = found.cause.code
    said = case.faults.attempt("explanation", said, frameworks.applied, situation, code, said)
    return replace(
        finding,
        code=code,
        headline=said.headline,
        cause=" ".join(said.why),
        fix="\n".join(said.fixes),
        fixes=said.fixes or None,
        notes=(*said.notes, *finding.notes),
    )


def _finding(
    case: Case,
    candidate: Candidate,
    judged: Sequence[Candidate],
    context: int,
    index: Mapping[Candidate, int],
) -> Finding:
    """Return the finding of a candidate. A part of the explanation that fails is left out."""

    def explained(otherwise: T, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return case.faults.attempt("explanation", otherwise, work, *args, **kwargs)

    bare = Wording(f"{KINDS[candidate.kind].meaning} ({place(candidate)})", "", "")
    wording = explained(bare, EXPLAINERS[candidate.kind], case, candidate)
    for added in other_end.added, on_the_way.added:
        wording = explained(wording, added, case, candidate, wording)
    cause = index.get(candidate.cause) if candidate.cause is not None else None
    return Finding(
        kind=candidate.kind,
        severity=candidate.severity,
        headline=wording.headline + explained("", sisters.also, case, candidate, judged),
        cause=wording.cause,
        fix=wording.fix,
        group=candidate.group,
        seq=candidate.seq,
        sides=tuple(replace(side, ranks=tuple(sorted(side.ranks))) for side in candidate.sides),
        suspects=tuple(sorted(candidate.suspects)),
        caused_by=cause,
        notes=(
            *wording.notes,
            *explained([], _notes, case, candidate, judged, wording.cause),
            *explained([], _on_the_wire, candidate, wording),
            *explained([], _aborted, case, candidate),
        ),
        table=explained(None, _table, case, candidate, judged, context),
        sources=explained((), _sources, case, candidate, wording.cause),
        parted=explained(None, _parted_sides, case, candidate),
        evidence=explained(None, evidence.told, candidate.evidence),
        repeats=cause if explained(False, sisters.is_repeat, case, candidate) else None,
    )


def _table(
    case: Case, candidate: Candidate, judged: Sequence[Candidate], context: int
) -> Table | None:
    """The rows around a root row; a fatal row is shown in the table of its root."""
    if not isinstance(candidate.source, Divergence) or candidate.mark == "fatal":
        return None
    if candidate.kind == "lost_mismatch":
        return None  # an empty cell would say that a rank issued none
    fatal = next((c for c in judged if c.stream == candidate.stream and c.mark == "fatal"), None)
    since = _parted(case, candidate)
    return table.around(case, candidate, fatal, context, since[0] if since is not None else None)


def _parted_sides(case: Case, candidate: Candidate) -> tuple[Side, ...] | None:
    """Where the sides parted before a candidate's row; None: nowhere, or it follows from another.

    Whoever left out a whole round was not there when the others were.
    """
    found = parted(case, candidate)
    if found is None or candidate.cause is not None or slip.slip(case, candidate) is not None:
        return None
    states = {rank: side.state for side in candidate.sides for rank in side.ranks}
    points = standpoint.of_parting(case, candidate, found)
    frames = chains.outermost_apart(points[0].stack, points[1].stack)
    return tuple(
        Side(
            ranks=point.ranks, call=point.call, state=states[rank], stack=tuple(point.stack),
            site=chains.site(frame) or None,
        )
        for rank, point, frame in zip(found.ranks, points, frames, strict=True)
    )  # fmt: skip


def _sources(case: Case, candidate: Candidate, cause: str) -> tuple[SourceLine, ...]:
    """The lines of code that issued the calls, asked for the groups, or raised instead.

    And those that stand under a condition of which is told, as the call itself may not.
    """
    sites = [call.site for _, call in called(candidate)]
    for side, call in called(candidate):
        sites += callers.lines(case, side.ranks[0], call)
        if side.call is not None:
            sites += callers.lines(case, side.ranks[0], side.call)
            sites += _up_to_the_named(case.stack(side.ranks[0], side.call), cause)
    sites += [side.site for side in candidate.sides]
    sites += [one.site for one in conditions.of_sides(case, candidate) if one.quoted in cause]
    for side in _parted_sides(case, candidate) or ():
        sites += [side.call.site if side.call is not None else None, side.site]
    if isinstance(candidate.source, GroupConflict):
        sites += [group.site for _, group in candidate.source.variants if group is not None]
        sites += [chains.site(frame) for _, frame in conflict.callers_apart(case, candidate.source)]
    leaving = (case.standings[rank].exit for rank in {*candidate.absent, *candidate.suspects})
    sites += [failure(line).site for line in leaving if line is not None]
    met = other_end.other_end(case, candidate)
    sites += [met.met.site] if met is not None else []
    beside = (by_framework.waits_beside(case.standings[rank]) for rank in candidate.suspects)
    sites += [site for _, site in filter(None, beside)]
    found = (_source(case, site) for site in dict.fromkeys(sites))
    return tuple(line for line in found if line is not None)[:_MOST_SOURCES]


def _up_to_the_named(stack: Sequence[str], cause: str) -> list[str]:
    """The lines above a call up to the outermost of which is told, those between with them."""
    sites = [chains.site(frame) for frame in stack]
    told = [n for n, site in enumerate(sites) if words.names_site(cause, site)]
    return sites[: max(told, default=-1) + 1]


def _source(case: Case, site: str | None) -> SourceLine | None:
    """Return a line with the conditions and loops around it; None if it is not known."""
    lines = case.statements(site)
    if not lines:
        return None
    around = statements.blocks(lines)
    return SourceLine(
        site=site or "", text=statements.code_of(lines[-1]), enclosing=tuple(around) or None
    )


def _notes(case: Case, candidate: Candidate, judged: Sequence[Candidate], cause: str) -> list[str]:
    """Observations that blame nobody: the place in the loop, the pattern that was left."""
    source = candidate.source
    again = sisters.note(case, candidate, judged)
    notes = [again] if again else []
    if isinstance(source, ChannelIssue | tuple):
        sides = called(candidate)
        parts = (_iteration(case, sides), message_round.told(case, sides))
        told = "; ".join(part for part in parts if part)
        notes += [f"{words.upper(told)}."] if told else []
        empty = empty_message.note(sides) if candidate.cause is None else ""
        return [*notes, empty] if empty else notes
    if not isinstance(source, Divergence) or candidate.mark == "fatal":
        return notes
    if source.gap is not None and candidate.kind != "lost_mismatch":
        notes.append(
            f"A log has lost calls {source.gap[0]} to {source.gap[1]}, over which the digests "
            "differ already. The root cause may lie there: this is only the first difference that "
            "can be seen."
        )
    here = _in_loop(case, candidate)
    if here:
        notes.append(here)
    notes += [*_moments(case, candidate), *_exceptions(case, candidate, cause)]
    if candidate.unknown and candidate.severity == "error":
        notes.append(f"Nothing is known here of {words.ranks(candidate.unknown)}.")
    return notes


def _aborted(case: Case, candidate: Candidate) -> list[str]:
    """That it was gloo that ended processes of the group, as it does where sizes do not fit."""
    group = candidate.group
    is_mismatch = candidate.kind in (*MISMATCHES, "p2p_mismatch")
    if not is_mismatch or candidate.cause is not None or group is None:
        return []
    standings = [one for rank in group.ranks if (one := case.standings.get(rank)) is not None]
    died = [one.rank for one in standings if one.state == "died" and _is_abort(one.log)]
    if not died or "gloo" not in group.backend:
        return []
    return [f"{GLOO_ABORTS}: {words.ranks(died)} ended so."]


def _is_abort(log: RankLog | None) -> bool:
    end = log.stack_dumps.end if log is not None else None
    return end is not None and end.fatal == "Aborted"


def _on_the_wire(candidate: Candidate, wording: Wording) -> list[str]:
    """Which ops the parts of frameworks issued that the words name; nothing for a consequence."""
    if candidate.cause is not None or candidate.severity == "info":
        return []
    calls = [call for _, call in called(candidate)]
    told = words.on_the_wire(calls, f"{wording.headline} {wording.cause}")
    return [told] if told else []


def _moments(case: Case, candidate: Candidate) -> list[str]:
    """When the ranks parted, and when that was felt, where seconds or hours lie between."""
    since = _parted(case, candidate)
    if since is None:
        return []
    _, rank, call = since
    began = case.issued(rank, call)
    if began is None or candidate.t - began < _APART:
        return []
    told = (
        f"The ranks parted at {_clock(began)}, at call {call.seq}; it was felt at "
        f"{_clock(candidate.t)}, at call {candidate.seq}."
    )
    return [told]


def _parted(case: Case, candidate: Candidate) -> tuple[int, int, Call] | None:
    """The row since which the ranks are apart, if one before a candidate's is known.

    With a rank and its call there.
    """
    first, since = slip.slip(case, candidate), parted(case, candidate)
    if first is not None:
        return first.seq, first.rank, first.call
    return (since.seq, since.ranks[0], since.calls[0]) if since is not None else None


def _exceptions(case: Case, candidate: Candidate, cause: str) -> list[str]:
    since = _parted(case, candidate)
    row = since[0] if since is not None else candidate.seq or 0
    return caught.notes(case, candidate, row, cause)


def _clock(ns: int) -> str:
    """``14:02:11``, local time."""
    return time.strftime("%H:%M:%S", time.localtime(ns / 1e9))


def _in_loop(case: Case, candidate: Candidate) -> str:
    """Where in the user's loop a row lies, one sentence; empty where nothing tells."""
    sides = called(candidate)
    if candidate.stream is None or candidate.seq is None or not sides:
        return ""
    habits = [
        (side, call, loop.before(case, side.ranks[0], candidate.stream, candidate.seq))
        for side, call in sides
    ]
    known = [(side, call, habit) for side, call, habit in habits if habit is not None]
    if parted(case, candidate) and not any(habit.goes_on(call) for _, call, habit in known):
        known = []  # apart since before it, all have come out of the loop of those rounds
    parts = [_iteration(case, sides)]
    if not known or known[0][2].period == 1:
        parts.append(_in_unit(case, sides, candidate))
    if known and len({habit.period for _, _, habit in known}) == 1 and known[0][2].period > 1:
        parts.append(_round(known[0][2]))
        left = [s.ranks for s, _, habit in known if s.call and not habit.goes_on(s.call)]
        who = {rank for ranks in left for rank in ranks}
        # Beside a finding that blames nobody, or another rank, this would read as blame.
        if who and len(left) < len(sides) and who <= set(candidate.suspects):
            parts.append(f"{words.ranks(who)} did something else here")
    told = "; ".join(part for part in parts if part)
    return f"{words.upper(told)}." if told else ""


def _iteration(case: Case, sides: Sequence[tuple[Side, Call]]) -> str:
    """``DDP iteration 6``, or ``step 6``, or which ranks are in which; empty where none tells.

    Of a thread that works beside the training, it does not tell how far that had come meanwhile.
    """
    logs = [case.log(rank) for side, _ in sides for rank in side.ranks]
    units = {log.unit for log in logs if log is not None}
    if len(units) > 1 or None in units:
        return ""
    name = "DDP iteration" if units == {DDP_FORWARD} else "step"
    by_number: dict[int, list[int]] = {}
    for side, call in sides:
        if call.iteration is not None:
            by_number.setdefault(call.iteration, []).extend(side.ranks)
    if len(models_of(sides)) > 1:
        return ""  # each counts by itself
    numbers = sorted(by_number.items())[:_MOST_ITERATIONS]
    if len(by_number) == 1:
        return f"{name} {numbers[0][0]}"
    if any(call.thread and not call.thread.startswith(NATIVE) for _, call in sides):
        return ""
    if not of_one_model(case, [rank for ranks in by_number.values() for rank in ranks]):
        return ""
    listed = ", ".join(f"{n} on {words.ranks(ranks)}" for n, ranks in numbers)
    return f"{name} {listed}" if listed else ""


def _in_unit(case: Case, sides: Sequence[tuple[Side, Call]], candidate: Candidate) -> str:
    """``the 5th call in it on rank 0, the 1st on ranks 1-2``: where rounds differ in length.

    Empty where no unit of work is counted, or the log does not reach back to where it began.
    """
    told = []
    for side, call in sides:
        log = case.log(side.ranks[0])
        if (
            call.iteration is None
            or log is None
            or log.unit == DDP_FORWARD
            or not candidate.stream
            or not candidate.seq
        ):
            return ""
        before = case.before(side.ranks[0], candidate.stream, candidate.seq, _LONGEST_UNIT)
        same = [c is not None and c.iteration == call.iteration for c in before]
        if same and all(same) and candidate.seq > _LONGEST_UNIT:
            return ""
        nth = next((n for n, one in enumerate(reversed(same)) if not one), len(same)) + 1
        told.append((words.ordinal(nth), words.ranks(side.ranks)))
    if len({nth for nth, _ in told}) == 1:
        return f"the {told[0][0]} call in it"
    return ", ".join(f"the {nth} call in it on {who}" for nth, who in told)


_LONGEST_UNIT: Final = 1000
"""Calls of a unit of work that are counted."""


def _round(habit: loop.Loop) -> str:
    """``the 3rd of 3 calls in each round of the loop, after 5 equal rounds``."""
    return (
        f"the {words.ordinal(habit.position)} of {habit.period} calls in each round of the loop, "
        f"after {habit.equal_rounds}"
    )
