"""Rules 3, 4 and 6 to 12: who, if anybody, is to blame, and what followed from what.

Nobody is blamed beyond what the evidence proves: where two halves of a group disagree, neither
is a suspect.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from collectrace.align.judging import patience
from collectrace.align.judging.candidate import Candidate, Stillness
from collectrace.align.judging.candidates import IN_INIT, candidates
from collectrace.align.judging.case import MISMATCHES, Case
from collectrace.align.matching.comparison import ChannelIssue, Divergence
from collectrace.align.ranks import waitgraph
from collectrace.align.ranks.standing import Standing
from collectrace.align.reading.evidence import GroupConflict
from collectrace.findings import Kind, Severity, Side
from collectrace.roles import is_shadow
from collectrace.signature import is_user, program_text

_ORDER: Final[tuple[Kind, ...]] = (
    "group_mismatch", "op_mismatch", "p2p_mismatch", "deadlock", "missing_call", "p2p_unmatched",
    "stall",
)  # fmt: skip
_SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "info")
_ABSENCES: Final[frozenset[Kind]] = frozenset({"missing_call", "p2p_unmatched"})
_NEVER_CAME: Final = frozenset(
    {"raised", "died", "busy", "silent", "running", "missing", "blocked"}
)
_PASSABLE: Final[frozenset[Kind]] = MISMATCHES | {"group_mismatch", "p2p_mismatch"}
"""What a rank may get past, and be wrong ever after; at the others it stays."""


def judge(case: Case) -> list[Candidate]:
    """Every candidate with its suspects, severity and cause, the root causes first."""
    found = candidates(case)
    for candidate in found:
        _sentence(case, candidate)
    link(case, found)
    return order(found)


def _sentence(case: Case, candidate: Candidate) -> None:
    source = candidate.source
    if isinstance(source, GroupConflict):
        if source.harmless:
            candidate.severity = "warning"
            return
        if source_is_absence(case, candidate):
            candidate.kind = "missing_call"
            candidate.suspects = suspects_of_absence(case, candidate)
        else:
            candidate.suspects = minority(_variants(source))
        if candidate.absent and not is_proven(case, candidate):
            candidate.severity = "info"
    elif isinstance(source, ChannelIssue):
        if candidate.kind == "p2p_unmatched":
            candidate.suspects = culprits(case, candidate)
            if not is_proven(case, candidate):
                candidate.severity = "info"
    elif isinstance(source, Stillness):
        candidate.suspects = source.failed or suspects_of_stillness(case, candidate)
    elif isinstance(source, Divergence):
        if candidate.kind == "missing_call":
            candidate.suspects = suspects_of_absence(case, candidate)
            if not is_proven(case, candidate):
                candidate.severity = "info"
        else:
            candidate.suspects = suspects_of_mismatch(case, candidate)


# -- rule 3: causes --------------------------------------------------------------------------


def link(case: Case, found: Sequence[Candidate]) -> None:
    """Rule 3: B is caused by A if the ranks at fault in B are stopped at A, or are past it.

    A fatal row is caused by the root row of its stream. Absences that end at the same culprits
    are one absence, seen by several groups.
    """
    ranked = sorted((c for c in found if c.severity == "error"), key=_rank)
    for effect in found:
        if effect.severity == "warning":
            continue
        for cause in ranked:
            if cause.root() is not effect and explains(case, cause, effect):
                effect.cause = cause
                break
    # What waits behind an error is one, however short the wait has been.
    for effect in found:
        if effect.cause is not None:
            effect.severity = "error"
    leaders: dict[tuple[int, ...], Candidate] = {}
    for candidate in sorted(found, key=_rank):
        if candidate.kind in _ABSENCES and candidate.cause is None and candidate.suspects:
            leader = leaders.setdefault(candidate.suspects, candidate)
            if leader is not candidate and leader.severity == candidate.severity == "error":
                candidate.cause = leader
    for candidate in found:
        if candidate.mark == "fatal" and candidate.cause is not None:
            candidate.suspects = candidate.cause.suspects


def explains(case: Case, cause: Candidate, effect: Candidate) -> bool:
    """Whether ``effect`` follows from ``cause``."""
    if cause is effect or cause.kind == effect.kind == "deadlock":
        return False
    rows = isinstance(cause.source, Divergence) and isinstance(effect.source, Divergence)
    if rows and cause.stream == effect.stream:
        return cause.mark == "root" and effect.mark == "fatal"
    if effect.kind in _ABSENCES:
        stopped = [rank for rank in effect.absent if _led(case, cause, effect, rank)]
        rest = set(effect.absent) - set(stopped)
        return bool(stopped) and rest <= set(cause.absent)
    if effect.suspects:
        return all(_led(case, cause, effect, rank) for rank in effect.suspects)
    return any(_led(case, cause, effect, rank) for rank in effect.ranks)


def _led(case: Case, cause: Candidate, effect: Candidate, rank: int) -> bool:
    """Whether a rank came to ``cause`` first, and did not get away from it unharmed."""
    came, went = reached(case, cause, rank), reached(case, effect, rank)
    if came is None or (went is not None and went <= came):
        return False
    if cause.kind in _PASSABLE or cause.kind == "deadlock":
        return True  # it is past the one, and waits in the other or behind it
    return any(patience.is_there(w, cause) for w in case.standings[rank].waiting)


def reached(case: Case, candidate: Candidate, rank: int) -> int | None:
    """When a rank came to a candidate's place; None if it did not, as far as is known."""
    source = candidate.source
    if isinstance(source, Divergence | Stillness):
        return case.issued(rank, source.calls.get(rank))
    if isinstance(source, ChannelIssue):
        call = source.send if rank == source.channel.source else None
        call = source.recv if rank == source.channel.destination else call
        return case.issued(rank, call)
    if isinstance(source, GroupConflict):
        asked = next((g for ranks, g in source.variants if rank in ranks), None)
        return case.clocks.when(rank, asked.t) if asked is not None else None
    held = {e.waiting.rank for e in source}
    behind = waitgraph.reachable(case.graph, rank) & held
    waiting = case.standings[rank].waiting
    return waiting[0].since if waiting and (rank in held or behind) else None


# -- rule 4: order ---------------------------------------------------------------------------


def order(found: Iterable[Candidate]) -> list[Candidate]:
    """Rule 4: uncaused first, by severity, kind and time; consequences follow their cause."""
    ranked = sorted(found, key=_rank)
    out: list[Candidate] = []

    def put(candidate: Candidate) -> None:
        out.append(candidate)
        for other in ranked:
            if other.cause is candidate:
                put(other)

    for candidate in ranked:
        if candidate.cause is None:
            put(candidate)
    return out


def _rank(candidate: Candidate) -> tuple[int, int, int, int]:
    kind = "op_mismatch" if candidate.kind in MISMATCHES else candidate.kind
    return (
        _SEVERITIES.index(candidate.severity), _ORDER.index(kind), candidate.t, candidate.seq or 0,
    )  # fmt: skip


# -- rules 6 and 7: absence ------------------------------------------------------------------


def suspects_of_absence(case: Case, candidate: Candidate) -> tuple[int, ...]:
    """Rules 6 and 7: who was waited for in the end, or whoever did what fewer did."""
    if isinstance(candidate.source, GroupConflict) and candidate.source.seq == IN_INIT:
        return candidate.absent
    found = culprits(case, candidate)
    if found:
        return found
    if candidate.absent and all(case.standings[r].state == "finished" for r in candidate.absent):
        return smaller_part(candidate)
    return ()


def culprits(case: Case, candidate: Candidate) -> tuple[int, ...]:
    """Rule 6: follow ranks that are blocked elsewhere to those that are not.

    Who raised, died, is busy or silent is a suspect, however many they are; that one is slow
    only counts where it was waited for long enough.
    """
    ends = waitgraph.follow(case.graph, case.standings, candidate.absent)
    patient = _waited_long(case, candidate)
    return tuple(sorted(r for r in ends if _is_culprit(case.standings[r], patient=patient)))


def _is_culprit(standing: Standing, *, patient: bool) -> bool:
    if standing.state == "raised":
        return failed_by_itself(standing)
    if standing.state == "died":
        return True
    return patient and standing.state in ("busy", "silent", "running")


def smaller_part(candidate: Candidate) -> tuple[int, ...]:
    """Rule 7: all absent ranks finished; the minority of absent and present, if there is one.

    Ranks of which nothing is known might be on either side.
    """
    absent, present, unknown = candidate.absent, candidate.present, len(candidate.unknown)
    if len(absent) + unknown < len(present):
        return tuple(sorted(absent))
    if len(present) + unknown < len(absent):
        return tuple(sorted(present))
    return ()


def is_proven(case: Case, candidate: Candidate) -> bool:
    """Whether ranks that did not come were never to come."""
    ends = waitgraph.follow(case.graph, case.standings, candidate.absent)
    if any(case.standings[rank].final for rank in {*ends, *candidate.absent}):
        return True
    return _waited_long(case, candidate) or _turned_away(case, candidate)


def _waited_long(case: Case, candidate: Candidate) -> bool:
    if patience.gave_up(case, candidate):
        return True
    waited = patience.waited(case, candidate)
    return patience.is_long(case, candidate.stream, candidate.seq or 0, waited)


def _turned_away(case: Case, candidate: Candidate) -> bool:
    """Ranks that did not ask for a group wait elsewhere for those that did."""
    if not isinstance(candidate.source, GroupConflict):
        return False
    present = set(candidate.present)
    return any(edge.target[0] in present for r in candidate.absent for edge in case.graph.of(r))


# -- rules 8, 9 and 10: mismatch -------------------------------------------------------------


def suspects_of_mismatch(case: Case, candidate: Candidate) -> tuple[int, ...]:
    """Rules 8 to 10 for one row of a stream."""
    source = candidate.source
    if not isinstance(source, Divergence) or source.gap is not None:
        return ()
    if source.attribute == "split":
        return in_every_pair(source.bad_pairs)
    called = [side for side in candidate.sides if side.call is not None]
    return intruders(called) or outvoted(case, candidate, called)


def outvoted(case: Case, candidate: Candidate, called: Sequence[Side]) -> tuple[int, ...]:
    """Rule 8: more than half of the group is right; in a tie sister groups decide, or nobody."""
    size = len(candidate.group.ranks) if candidate.group is not None else 0
    right = next((side for side in called if 2 * len(side.ranks) > size), None)
    if right is None:
        right = _as_sisters_do(case, candidate, called)
    if right is None:
        return ()
    return tuple(sorted(r for side in called if side is not right for r in side.ranks))


def _as_sisters_do(case: Case, candidate: Candidate, called: Sequence[Side]) -> Side | None:
    """The side that did what groups of the same description and size did at the same place."""
    stream, seq = candidate.stream, candidate.seq
    if candidate.group is None or stream is None or seq is None:
        return None
    votes: set[str] = set()
    for name, info in case.comparison.groups.items():
        is_sister = name != candidate.group.name and _kinship(case, info.name) == _kinship(
            case, candidate.group.name
        )
        sister = stream._replace(group=name)
        if is_sister and sister in case.comparison.streams:
            calls = [case.call(rank, sister, seq) for rank in info.ranks]
            votes |= {program_text(call) for call in calls if call is not None and not call.void}
    right = [side for side in called if side.call and program_text(side.call) in votes]
    return right[0] if len(right) == 1 and len(votes) == 1 else None


def _kinship(case: Case, name: str) -> tuple[object, ...]:
    """What sister groups share: description and size; without a description the line, too."""
    info = case.comparison.groups[name]
    if info.description not in ("", "undefined"):
        return info.description, len(info.ranks)
    asked = (g.site for log in case.evidence.logs.values() for g in log.groups if g.group == name)
    return next((site for site in asked if site), name), len(info.ranks)


def intruders(called: Sequence[Side]) -> tuple[int, ...]:
    """Rule 9: a user's call met a collective with which join() shadows another rank's."""
    users = [r for side in called if side.call and is_user(side.call) for r in side.ranks]
    shadows = [side for side in called if side.call and is_shadow(side.call.role)]
    return tuple(sorted(users)) if shadows else ()


def in_every_pair(pairs: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Rule 10, splits: the one rank that is part of every pair that does not fit."""
    common = set.intersection(*(set(pair) for pair in pairs)) if pairs else set()
    return tuple(common) if len(common) == 1 else ()


def minority(variants: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Rule 10, groups: whoever does not agree with more than half of those concerned."""
    everybody = sorted(r for ranks in variants for r in ranks)
    right = next((set(v) for v in variants if 2 * len(v) > len(everybody)), set(everybody))
    return tuple(r for r in everybody if r not in right)


def _variants(conflict: GroupConflict) -> list[tuple[int, ...]]:
    return [ranks for ranks, _ in conflict.variants]


def source_is_absence(case: Case, candidate: Candidate) -> bool:
    """Ranks that never came to create a group, because they came to nothing any more.

    Those that wait for the ranks in it, in a call of their own, did something else instead.
    """
    source = candidate.source
    if not isinstance(source, GroupConflict) or not candidate.absent:
        return False
    asked = [group for _, group in source.variants if group is not None]
    came_nowhere = all(case.standings[rank].state in _NEVER_CAME for rank in candidate.absent)
    return len(asked) == 1 and came_nowhere and not _turned_away(case, candidate)


# -- rules 11 and 12 -------------------------------------------------------------------------


def failed_by_itself(standing: Standing) -> bool:
    """Rule 11: an exception that came out of a collective or a wait is a consequence.

    One that a call raised over its own arguments is not: nobody else took part in it.
    """
    return standing.state == "raised" and not standing.by_peers


def suspects_of_stillness(case: Case, candidate: Candidate) -> tuple[int, ...]:
    """Everyone is there: whoever stopped, without a word, is why nothing completes."""
    standings = [case.standings[rank] for rank in candidate.ranks]
    return tuple(s.rank for s in standings if s.state in ("silent", "died") or s.early)


def gaps(case: Case, found: Sequence[Candidate]) -> dict[int, str]:
    """Rule 12: ranks whose evidence is needed and is not there, and what became of it."""
    needed = {rank for candidate in found for rank in candidate.unknown}
    out: dict[int, str] = {}
    for rank, standing in case.standings.items():
        log = standing.log
        if log is None:
            out[rank] = "left no file"
        elif log.dropped:
            out[rank] = f"lost {log.dropped} records"
        elif rank in needed:
            out[rank] = "its log does not reach the place in question"
    return out
