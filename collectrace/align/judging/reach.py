"""Find where the record of a rank ends, and which candidates are after that.

A tracer that gave up or was disabled leaves a log that ends before its process does. A call that
could not be described may be any call, so no later difference is certainly the first. After an
internal failure the tracer may lack a call, a group or a role.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from collectrace.align.judging.candidate import Candidate, IncompleteRow
from collectrace.align.judging.case import Case
from collectrace.align.matching.comparison import ChannelIssue, Divergence
from collectrace.align.reading.evidence import GroupConflict, RankLog


def incomplete_logs(case: Case) -> dict[int, RankLog]:
    """Return the ranks with a record that stops before everything that the rank did."""
    return {
        rank: log
        for rank, log in case.evidence.logs.items()
        if log.disabled or log.first_void is not None or log.first_fault is not None
    }


def _goes_beyond(log: RankLog, t: int | None) -> bool:
    """Whether a rank acted after its record stopped: at ``t``, ns on its own clock.

    ``t`` is None if it is not known to have acted at all.
    """
    if t is None:
        return True
    fault, void = log.first_fault, log.first_void
    return (fault is not None and t >= (fault.since or 0)) or (void is not None and t > void.t)


def candidates_beyond(
    case: Case, found: Sequence[Candidate], causes: Mapping[Candidate, Candidate]
) -> set[Candidate]:
    """Return the candidates beyond the record of a rank, and their consequences."""
    limits = incomplete_logs(case)
    if not limits:
        return set()
    out = {candidate for candidate in found if _is_beyond(candidate, limits)}
    for candidate in found:
        cause: Candidate | None = candidate
        while cause is not None:
            if cause in out:
                out.add(candidate)
                break
            cause = causes.get(cause)
    return out


def _is_beyond(candidate: Candidate, limits: Mapping[int, RankLog]) -> bool:
    came = _came(candidate)
    return any(_goes_beyond(limits[rank], came.get(rank)) for rank in _concerned(candidate, limits))


def _concerned(candidate: Candidate, limits: Collection[int]) -> set[int]:
    """Return the ranks of ``limits`` that a candidate is about, present or absent."""
    source = candidate.source
    if isinstance(source, ChannelIssue):
        return {source.channel.source, source.channel.destination} & set(limits)
    if isinstance(source, GroupConflict):
        return {rank for ranks, _ in source.variants for rank in ranks} & set(limits)
    if isinstance(source, Divergence | IncompleteRow):
        members = candidate.group.ranks if candidate.group is not None else candidate.ranks
        return set(members) & set(limits)
    return {r for edge in source for r in (edge.waiting.rank, edge.target[0])} & set(limits)


def _came(candidate: Candidate) -> dict[int, int]:
    """Return when ranks reached a candidate, ns on their own clocks; empty for a cycle."""
    source = candidate.source
    if isinstance(source, Divergence | IncompleteRow):
        return {rank: call.t for rank, call in source.calls.items() if call is not None}
    if isinstance(source, ChannelIssue):
        ends = ((source.channel.source, source.send), (source.channel.destination, source.recv))
        return {rank: call.t for rank, call in ends if call is not None}
    if isinstance(source, GroupConflict):
        return {r: asked.t for ranks, asked in source.variants if asked is not None for r in ranks}
    return {}
