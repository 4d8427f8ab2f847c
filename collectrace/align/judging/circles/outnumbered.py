"""A rank that is alone in one of two groups' collectives, while all others are in the other's.

Most of either group are on one side, so that each tells of the same rank that it went another way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from collectrace.align.judging import announced
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.candidates import along_circle, waited_for
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.own_round import left_own_round, program_of
from collectrace.align.matching.deviations import CAN_OUTVOTE
from collectrace.align.ranks.waitgraph import Edge
from collectrace.align.reading.evidence import StreamKey
from collectrace.records import Call


class Outnumbered(NamedTuple):
    """Who came first to the one of two collectives to which nobody else of its group came."""

    rank: int
    made: Call
    """The collective in which it is alone."""
    awaited: Call
    """The one in which all others wait for it, as one of those made it that are in both groups."""
    both: tuple[int, ...]
    """The others that are in both groups; at least two."""
    others: tuple[int, ...]
    """All that wait for it."""


@once
def outnumbered(case: Case, candidate: Candidate) -> Outnumbered | None:
    """Who of a circle of two stands alone against most of both groups.

    What it came to is new to it, and nobody else has left a round. Nor can it have been told to.
    """
    return along_circle(case, candidate, _of_edges) if len(candidate.cycle) == 2 else None


def _of_edges(case: Case, edge: Edge, after: Edge) -> Outnumbered | None:
    rank, mine, theirs = edge.waiting.rank, edge.waiting.stream, after.waiting.stream
    if mine is None or theirs is None or mine.group == theirs.group:
        return None
    groups = case.comparison.groups
    others = tuple(one for one in groups[theirs.group].ranks if one != rank)
    both = tuple(one for one in groups[mine.group].ranks if one != rank)
    if len(both) + 1 < CAN_OUTVOTE or not {*both} <= {*others}:
        return None
    row, last = edge.waiting.seq or 0, after.waiting.seq or 0
    made, awaited = case.call(rank, mine, row), case.call(both[0], theirs, last)
    if made is None or awaited is None or made.thread != awaited.thread:
        return None
    if not all(_has_come(case, one, mine, row - 1) for one in both):
        return None
    if not all(_has_come(case, one, theirs, last) for one in others):
        return None
    if not _has_come(case, rank, theirs, last - 1):
        return None
    if not (_is_turn(case, made, rank, others) or _is_new(case, rank, others)):
        return None
    return Outnumbered(rank, made, awaited, both, others)


def _is_turn(case: Case, made: Call, rank: int, others: Sequence[int]) -> bool:
    """Whether all wait in one line, on groups of the same ranks.

    These have one order, in which all must come to them; more than half of the ranks tell it.
    """
    calls = [(r, waited_for(case, w)) for r in others for w in case.standings[r].waiting[:1]]
    groups = case.comparison.groups
    return len(calls) == len(others) and all(
        call is not None
        and case.stack(one, call)[:1] == case.stack(rank, made)[:1] != ()
        and {*groups[call.group].ranks} == {*groups[made.group].ranks}
        for one, call in calls
    )


def _has_come(case: Case, rank: int, stream: StreamKey, row: int) -> bool:
    """Whether a rank, all of whose calls are known, came as far as a row, and no further."""
    program = program_of(case, rank)
    return program is not None and program.log.last_seq.get(stream, 0) == row


def _is_new(case: Case, rank: int, others: tuple[int, ...]) -> bool:
    """Whether a rank alone did what it had never done before, and nothing can have told it to."""
    program = program_of(case, rank)
    if program is None or any(left_own_round(case, one) is not None for one in others):
        return False
    return program.ends_anew and not announced.was_told(case, rank)
