"""Rules 3 and 4: give every candidate its verdict, its cause and its position.

``blame`` holds the rules 6 to 12, which decide the suspects.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import attrgetter
from typing import Final, TypeVar

from collectrace.align.judging import blame, patience, reach, sisters
from collectrace.align.judging.by_number import is_of_numbers, named_alike
from collectrace.align.judging.candidate import Candidate, IncompleteRow, Verdict
from collectrace.align.judging.candidates import candidates
from collectrace.align.judging.case import Case
from collectrace.align.judging.passed_on import dependent_ranks
from collectrace.align.judging.program import deviation
from collectrace.align.matching.comparison import ChannelIssue, Divergence
from collectrace.align.ranks import waitgraph
from collectrace.align.reading.evidence import GroupConflict
from collectrace.findings import KINDS, Kind, Severity

_SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "info")

Causes = dict[Candidate, Candidate]
"""By consequence, its cause."""

Found = TypeVar("Found")


def judge(case: Case) -> list[Candidate]:
    """Return every candidate with suspects, severity and cause, root causes first.

    Candidates beyond the end of a rank's record are left out. If a kind has too many, those that
    some rank still waits in come first, then the earliest.
    """
    waits = (w for standing in case.standings.values() for w in standing.waiting)
    awaited = {place for w in waits for place in (w.channel, w.stream, w.group)}
    found = first_of_each_kind(
        case, candidates(case), attrgetter("what"),
        lambda c: (c.is_warning, awaited.isdisjoint(_places(c)), c.t),
    )  # fmt: skip
    for candidate in found:
        candidate.verdict = blame.verdict(case, candidate)
    causes = case.faults.attempt("suspects", None, _link_causes, case, found)
    if causes is None:  # without causes, a consequence could be blamed as a cause
        causes = {}
        for candidate in found:
            candidate.verdict = Verdict(candidate.kind, candidate.severity)
    hidden = reach.candidates_beyond(case, found, causes)
    found = [candidate for candidate in found if candidate not in hidden]
    for candidate in found:
        candidate.cause = causes.get(candidate)
        candidate.verdict = _as_effect(candidate)
    return in_order(found)


MOST_OF_A_KIND: Final = 50
"""Candidates of one kind that are judged, as each pair of them is compared."""


def first_of_each_kind(
    case: Case,
    found: Sequence[Found],
    kind: Callable[[Found], Kind],
    rank: Callable[[Found], tuple[object, ...]] = lambda _: (),
) -> list[Found]:
    """Return the first of each kind, sorted by ``rank``; count the others in ``case.left_out``."""
    of_kind: dict[Kind, list[int]] = {}
    for n, one in enumerate(found):
        of_kind.setdefault(kind(one), []).append(n)
    out: set[int] = set()
    for name, those in of_kind.items():
        if len(those) > MOST_OF_A_KIND:
            those.sort(key=lambda n: rank(found[n]))
            out.update(those[MOST_OF_A_KIND:])
            case.left_out[name] = len(those) - MOST_OF_A_KIND
    return [one for n, one in enumerate(found) if n not in out]


def _places(candidate: Candidate) -> set[Hashable]:
    """Return the streams, channels and groups that ranks of a candidate may wait in."""
    source = candidate.source
    if isinstance(source, ChannelIssue):
        return {source.channel, source.near.channel if source.near is not None else source.channel}
    if isinstance(source, GroupConflict):
        return {source.name}
    return {candidate.stream} if candidate.stream is not None else set()


def _link_causes(case: Case, found: Sequence[Candidate]) -> Causes:
    """Return causes by consequence; candidates that are one error get the suspects of both."""
    for candidate, suspects in named_alike(found).items():
        candidate.verdict = _blaming(candidate, suspects)
    causes = find_causes(case, found)
    causes |= _held_up_by_several(case, found, causes)
    for candidate, leader in causes.items():
        if sisters.repeats(case, leader, candidate) and leader.suspects and candidate.suspects:
            suspects = tuple(sorted({*leader.suspects, *candidate.suspects}))
            leader.verdict = _blaming(leader, suspects)
    return causes


def _blaming(candidate: Candidate, suspects: tuple[int, ...]) -> Verdict:
    return Verdict(candidate.kind, candidate.severity, suspects, candidate.evidence)


def _as_effect(candidate: Candidate) -> Verdict:
    """Return the verdict of a consequence.

    Whatever waits behind an error is an error, however short the wait. The suspects of a stream's
    first difference are also those of its fatal difference.
    """
    cause = candidate.cause
    if cause is None:
        return _blaming(candidate, candidate.suspects)
    by = cause if candidate.mark == "fatal" else candidate
    return Verdict(candidate.kind, "error", by.suspects, by.evidence)


# -- rule 3: causes --------------------------------------------------------------------------


def find_causes(case: Case, found: Sequence[Candidate]) -> Causes:
    """Rule 3: A causes B if the ranks at fault in B are blocked at A, or are past it.

    The root difference of a stream causes its fatal one. These are one error: absences with the
    same culprits in several groups, all results of one rank's leaving its program, and an error
    that groups of one dimension repeat. If two cause each other, the one with suspects is the
    cause.
    """
    causes: dict[Candidate, Candidate] = {}
    errors = sorted((c for c in found if c.severity == "error"), key=_place)
    for effect in found:
        if effect.severity == "warning":
            continue
        for cause in errors:
            if _root(causes, cause) is effect or not explains(case, cause, effect):
                continue
            if not _has_suspects_instead(case, effect, cause):
                causes[effect] = cause
                break
    leaders: dict[tuple[int, ...], Candidate] = {}
    for candidate in errors:
        if KINDS[candidate.kind].is_absence and candidate not in causes and candidate.suspects:
            leader = leaders.setdefault(candidate.suspects, candidate)
            if leader is not candidate:
                causes[candidate] = leader
    for n, candidate in enumerate(errors):
        for leader in errors[:n]:
            if (
                candidate not in causes
                and leader not in causes
                and _is_same_error(case, leader, candidate)
            ):
                causes[candidate] = leader
    return causes


def _held_up_by_several(case: Case, found: Sequence[Candidate], causes: Causes) -> Causes:
    """Return absences of ranks that a mismatch and its repetitions blocked, each another rank."""
    roots = [one for one in found if one.severity == "error" and one not in causes]
    roots.sort(key=_place)
    more: Causes = {}
    for effect in roots:
        if KINDS[effect.kind].is_absence:
            those = (one for one in roots if _blocked_all(case, causes, one, effect))
            if (leader := next(those, None)) is not None:
                more[effect] = leader
    return more


def _blocked_all(case: Case, causes: Causes, leader: Candidate, effect: Candidate) -> bool:
    """Whether a mismatch and its repetitions blocked all ranks that are absent from ``effect``.

    For example, the messages of one rank can end several of its peers.
    """
    if leader is effect or not KINDS[leader.kind].is_passable:
        return False
    those = [leader, *(one for one in causes if _root(causes, one) is leader)]
    those = [one for one in those if one.kind == leader.kind]
    return bool(effect.absent) and all(
        any(_leads_to(case, one, effect, rank) for one in those) for rank in effect.absent
    )


def _has_suspects_instead(case: Case, one: Candidate, other: Candidate) -> bool:
    """Whether two candidates cause each other, and only the first has suspects."""
    if one.severity != "error" or other.suspects or not one.suspects:
        return False
    return explains(case, one, other)


def _is_same_error(case: Case, one: Candidate, other: Candidate) -> bool:
    """Whether two candidates are one error, seen in two groups, or at two peers of a rank."""
    left = deviation(case, one)
    if left is not None and left is deviation(case, other) and one.suspects == other.suspects:
        return True
    if one.suspects == other.suspects and _facts(one) & _facts(other) & _OF_ONE_RANK:
        return True
    return sisters.repeats(case, one, other)


_OF_ONE_RANK: Final = frozenset({"odd_message", "end_of_every_misfit"})
"""Facts about a rank that disagrees with each of its peers in the same way."""


def _facts(candidate: Candidate) -> set[str]:
    return {row.fact for row in candidate.verdict.evidence} if candidate.verdict else set()


def _root(causes: Causes, candidate: Candidate) -> Candidate:
    while candidate in causes:
        candidate = causes[candidate]
    return candidate


def explains(case: Case, cause: Candidate, effect: Candidate) -> bool:
    """Whether ``effect`` is a consequence of ``cause``.

    If ``effect`` is an absence, ``cause`` must have blocked its absent ranks, or lack them too.
    Else all suspects of ``effect``, or one of its ranks if there are none, must have reached
    ``cause`` first.
    """
    if cause is effect or cause.kind == effect.kind == "deadlock":
        return False
    if any(_came_after(case, effect, cause, rank) for rank in effect.present):
        return False
    rows = isinstance(cause.source, Divergence) and isinstance(effect.source, Divergence)
    if rows and cause.stream == effect.stream:
        return cause.mark == "root" and effect.mark == "fatal"

    def led(ranks: Iterable[int]) -> list[int]:
        return [rank for rank in ranks if _leads_to(case, cause, effect, rank)]

    # Messages to group ranks lack nobody: the ranks they name were never to answer.
    if KINDS[effect.kind].is_absence and not is_of_numbers(effect):
        late = led(effect.absent)
        there = {*cause.absent, *(cause.suspects if is_of_numbers(cause) else ())}
        return bool(late) and set(effect.absent) - set(late) <= there
    if effect.suspects:
        return len(led(effect.suspects)) == len(effect.suspects)
    return bool(led(effect.present))


def _leads_to(case: Case, cause: Candidate, effect: Candidate, rank: int) -> bool:
    """Whether a rank reached ``cause`` first, and did not leave it unharmed."""
    came, went = reached(case, cause, rank), reached(case, effect, rank)
    if (
        came is None
        and KINDS[cause.kind].is_passable
        and blame.failed_by_itself(case.standings[rank])
    ):
        came = dependent_ranks(case, cause).get(rank)
    if came is None or (went is not None and went <= came):
        return False
    if KINDS[cause.kind].is_passable or cause.kind == "deadlock":
        return True  # it is past the cause, and waits in the effect or behind it
    if _came_after(case, cause, effect, rank):
        return True
    return any(patience.waits_at(w, cause) for w in case.standings[rank].waiting)


def _came_after(case: Case, first: Candidate, then: Candidate, rank: int) -> bool:
    """Whether a rank gave up at one candidate, and reached the other one later."""
    came, went = reached(case, first, rank), reached(case, then, rank)
    is_later = came is not None and went is not None and came < went
    return is_later and patience.failed_at(case, first, rank)


def reached(case: Case, candidate: Candidate, rank: int) -> int | None:
    """Return when a rank reached a candidate, ns; None if it is not known to have."""
    source = candidate.source
    if isinstance(source, Divergence | IncompleteRow):
        return case.issued(rank, source.calls.get(rank))
    if isinstance(source, ChannelIssue):
        call = source.send if rank == source.channel.source else None
        call = source.recv if rank == source.channel.destination else call
        if call is None and source.near is not None and rank == source.near.channel.source:
            call = source.near.send
        return case.issued(rank, call)
    if isinstance(source, GroupConflict):
        places = (*source.variants, *source.instead)
        asked = next((g for ranks, g in places if rank in ranks and g is not None), None)
        return case.clocks.when(rank, asked.t) if asked is not None else None
    held = {e.waiting.rank: e.waiting.since for e in source}
    if rank not in held and not waitgraph.reachable(case.graph, rank) & held.keys():
        return None
    standing = case.standings[rank]
    if standing.host_wait is not None and not standing.waiting:  # for a lock of the cycle
        return held.get(rank, case.clocks.when(rank, standing.host_wait.t))
    return standing.waiting[0].since if standing.waiting else None


# -- rule 4: order ---------------------------------------------------------------------------


def in_order(found: Iterable[Candidate]) -> list[Candidate]:
    """Rule 4: return root causes by severity, kind and time, each before its consequences."""
    effects: dict[Candidate | None, list[Candidate]] = {}
    for candidate in sorted(found, key=_place):
        effects.setdefault(candidate.cause, []).append(candidate)
    out: list[Candidate] = []
    todo = effects.get(None, [])[::-1]
    while todo:
        out.append(todo.pop())
        todo += effects.get(out[-1], [])[::-1]
    return out


def _place(candidate: Candidate) -> tuple[int, int, int, int]:
    severity = _SEVERITIES.index(candidate.severity)
    return severity, KINDS[candidate.kind].order, candidate.t, candidate.seq or 0
