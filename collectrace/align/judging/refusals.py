"""Calls that raised on one rank only, which has since been one call short of its peers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.matching.comparison import Divergence
from collectrace.align.ranks.waitgraph import Cycle
from collectrace.align.reading.evidence import Refusal, StreamKey
from collectrace.records import Call

_WINDOW: Final = 200
"""Calls before a difference that are compared, shifted by the refused calls."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The refused calls that explain why some ranks are short of calls, and their peers are not."""

    by_rank: dict[int, tuple[Refusal, ...]]
    """The refusals by rank, in order."""

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks with refused calls."""
        return tuple(sorted(self.by_rank))


@once
def refused(case: Case, candidate: Candidate) -> Refused | None:
    """Return the refusals that caused a difference, or None.

    A refused call that was repeated, or that all ranks had refused, does not shift the streams. So
    the rank's later calls must be those of its peers, shifted by the number of refusals, and the
    peers must have made the refused calls.
    """
    source = candidate.source
    if candidate.cycle:
        return _in_circle(case, candidate.cycle)
    if not isinstance(source, Divergence):
        return None
    found: dict[int, tuple[Refusal, ...]] = {}
    for side in candidate.sides:
        for rank in side.ranks:
            mine = _refusals_of(case, rank, source.stream, source.seq)
            peers = (r for other in candidate.sides if other is not side for r in other.ranks)
            peer = next(
                (p for p in peers if not _refusals_of(case, p, source.stream, source.seq)), None
            )
            if mine and peer is not None and _is_shifted(case, source, rank, peer, mine):
                found[rank] = tuple(mine)
    return Refused(found) if found else None


def _in_circle(case: Case, cycle: Cycle) -> Refused | None:
    """Return the refusals of exactly the calls that others in a cycle wait for."""
    found: dict[int, tuple[Refusal, ...]] = {}
    for edge in cycle:
        stream, seq, rank = edge.waiting.stream, edge.row, edge.target[0]
        if stream is None or seq is None:
            continue
        theirs = case.call(edge.waiting.rank, stream, seq)
        those = [r for r in _refusals_of(case, rank, stream, seq) if r.seq == seq]
        if those and _is_same_call(those[0].call, theirs):
            found[rank] = tuple(those)
    return Refused(found) if found else None


def _refusals_of(case: Case, rank: int, stream: StreamKey, seq: int) -> list[Refusal]:
    log = case.log(rank)
    return [r for r in log.refused if r.key == stream and r.seq <= seq] if log is not None else []


def _is_shifted(
    case: Case, source: Divergence, rank: int, peer: int, refusals: Sequence[Refusal]
) -> bool:
    """Whether ``rank`` has been behind ``peer`` by its refused calls since then."""
    stream, last = source.stream, source.seq
    for n, refusal in enumerate(refusals):
        if not _is_same_call(refusal.call, case.call(peer, stream, refusal.seq + n)):
            return False
    first = refusals[0].seq
    for seq in range(max(first, last - _WINDOW), last + 1):
        shift = sum(refusal.seq <= seq for refusal in refusals)
        mine, theirs = case.call(rank, stream, seq), case.call(peer, stream, seq + shift)
        if mine is None:
            return _explains_absence(case, source, rank, peer, refusals)
        if theirs is not None and not _is_same_call(mine, theirs):
            return False
    return True


def _explains_absence(
    case: Case, source: Divergence, rank: int, peer: int, refusals: Sequence[Refusal]
) -> bool:
    """Whether a rank without further calls lacks exactly those that were refused.

    If it raised or is busy, it may have stopped for any reason. Then only a refusal of this very
    call counts.
    """
    if refusals[-1].seq == source.seq:
        return True
    mine, theirs = case.log(rank), case.log(peer)
    if mine is None or theirs is None or case.standings[rank].state not in ("finished", "blocked"):
        return False
    lacking = theirs.last_seq.get(source.stream, 0) - mine.last_seq.get(source.stream, 0)
    return lacking == len(refusals)


def is_shifted(
    case: Case, stream: StreamKey, ranks: tuple[int, int], rows: tuple[int, int], by: int
) -> bool:
    """Whether the first rank's calls are those of the second, shifted by ``by``.

    Only calls between ``rows`` count. Behind the last, the second rank met another call than its
    own, so its later calls may be consequences.
    """
    rank, peer = ranks
    first, last = rows
    return first + by <= last and all(
        _is_same_call(case.call(rank, stream, seq), case.call(peer, stream, seq + by))
        for seq in range(first, last - by + 1)
    )


def _is_same_call(one: Call | None, other: Call | None) -> bool:
    if one is None or other is None:
        return False
    return (one.op, one.site, one.role) == (other.op, other.site, other.role)
