"""Calls that torch ignored, as their rank is not in the group that was passed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.reading.evidence import RankLog
from collectrace.records import Call, Outside


@dataclass(frozen=True, slots=True)
class Ignored:
    """Ranks that others wait for, as torch ignored their call."""

    by_rank: dict[int, Outside]
    awaited: dict[int, Call]
    """By each of these ranks, the call that others wait in for it."""

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks with an ignored call."""
        return tuple(sorted(self.by_rank))


@once
def ignored(case: Case, candidate: Candidate) -> Ignored | None:
    """Return the ignored calls that explain why ranks lack a call, or None.

    A line may pass each group in turn, on members and others alike. So it explains nothing if a
    rank also issued a call there, or if torch ignored a call of those who wait there.
    """
    found: dict[int, Outside] = {}
    awaited: dict[int, Call] = {}
    if not any(log.outside for log in case.evidence.logs.values()):
        return None
    for waiter, rank, call in _waits(case, candidate):
        mine, theirs = case.log(rank), case.log(waiter)
        if rank in found or mine is None or theirs is None or _outside_at(theirs, call):
            continue
        at = _outside_at(mine, call)
        if at is not None and not _issued_at(mine, call):
            found[rank], awaited[rank] = at, call
    return Ignored(found, awaited) if found else None


def _waits(case: Case, candidate: Candidate) -> Iterator[tuple[int, int, Call]]:
    """Yield who waits, for whom, and in which call.

    If ranks wait in a cycle, all waits count: the groups of a grid wait at one line.
    """
    if candidate.cycle:
        waits = (one for standing in case.standings.values() for one in standing.waiting)
        for (stream, seq), rank in {(one.stream, one.seq): one.rank for one in waits}.items():
            if stream is None or seq is None or (call := case.call(rank, stream, seq)) is None:
                continue
            for other in case.comparison.groups[call.group].ranks:
                if case.call(other, stream, seq) is None:
                    yield rank, other, call
    elif candidate.stream is not None:
        for side in candidate.sides:
            if side.call is not None:
                others = (r for one in candidate.sides if one is not side for r in one.ranks)
                for rank in (*candidate.absent, *others):
                    yield side.ranks[0], rank, side.call


def _outside_at(log: RankLog, call: Call) -> Outside | None:
    return next((one for one in log.outside if one.site and one.site == call.site), None)


def _issued_at(log: RankLog, call: Call) -> bool:
    """Whether a rank issued a call of its own from that line."""
    seen = (n for stream in log.last_seq for n in set(log.rows(stream)[0].appearance))
    known = log.vocabulary.appearances
    return any(known[n].site == call.site for n in seen)
