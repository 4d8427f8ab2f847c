"""A rank of a circle whose calls have met others' of other lines since a row before.

Where all bytes were alike nothing failed there: it is the end that the rank has come to too early.
"""

from __future__ import annotations

from typing import NamedTuple

from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.candidates import along_circle
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.own_round import program_of
from collectrace.align.matching import parting
from collectrace.align.matching.deviations import CAN_OUTVOTE
from collectrace.align.ranks.waitgraph import Edge
from collectrace.align.reading.evidence import StreamKey
from collectrace.records import Call


class Drifted(NamedTuple):
    """Who parted in its lines from all others of a group, which were at one."""

    rank: int
    others: tuple[int, ...]
    """More than half of the group."""
    stream: StreamKey
    seq: int
    """The first row at which they were apart."""
    made: Call
    """What the rank issued there."""
    met: Call
    """What the first of the others did."""


@once
def drifted(case: Case, candidate: Candidate) -> Drifted | None:
    """Who of a circle of two collectives had drifted away from all others of a group; else None.

    By lines that had not met before, where those of the others are the same: a program in which
    ranks come to their calls from lines of their own has always done so.
    """
    return along_circle(case, candidate, _of_edges) if len(candidate.cycle) == 2 else None


def _of_edges(case: Case, edge: Edge, after: Edge) -> Drifted | None:
    rank, stream, row = edge.waiting.rank, after.waiting.stream, after.waiting.seq
    if stream is None or row is None or edge.waiting.stream in (None, stream):
        return None
    members = case.comparison.groups[stream.group].ranks
    others = tuple(one for one in members if one != rank)
    logs = {one: case.log(one) for one in members if program_of(case, one) is not None}
    if rank not in members or len(members) < CAN_OUTVOTE or len(logs) != len(members):
        return None
    mine, theirs = logs[rank], logs[others[0]]
    found = parting.find(mine, theirs, stream, row) if mine and theirs else None
    if found is None or found.seq >= row or found.ranks[0] != rank:
        return None
    at = {one: case.call(one, stream, found.seq) for one in others}
    places = {case.stack(one, call) if call is not None else () for one, call in at.items()}
    if len(places) != 1 or () in places:
        return None
    return Drifted(rank, others, stream, found.seq, *found.calls)
