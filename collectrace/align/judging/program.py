"""Which rank left the program that its like went on with, where that led to a candidate."""

from __future__ import annotations

from typing import Final

from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.matching import habit, programs
from collectrace.align.matching.comparison import ChannelIssue, Divergence
from collectrace.align.matching.deviations import Deviation
from collectrace.align.reading.evidence import ChannelKey, StreamKey
from collectrace.records import Call

_LATEST: Final = 16
"""A rank's last calls, among which it may have left its own round."""


@once
def deviation(case: Case, candidate: Candidate) -> Deviation | None:
    """How ranks left their program in a stream (channel) of a candidate, at its row or before."""
    source = candidate.source
    places: list[tuple[StreamKey | ChannelKey | None, int]]
    if isinstance(source, Divergence):
        places = [(source.stream, source.seq)]
    elif isinstance(source, ChannelIssue):
        places = [(source.channel, source.seq)]
    elif isinstance(source, tuple):
        waits = [edge.waiting for edge in source]
        places = [(w.channel or w.stream, w.seq or 0) for w in waits]
    else:
        return None
    return next(
        (
            one
            for one in case.deviations
            for rows in one.rows.values()
            for key, seq in places
            if key is not None and seq >= rows.get(key, seq + 1)
        ),
        None,
    )


def out_of_program(case: Case, candidate: Candidate) -> tuple[int, ...]:
    """The ranks that left it; none where that is not known."""
    found = deviation(case, candidate)
    return found.ranks if found is not None else ()


def left_own_round(case: Case, rank: int) -> tuple[Call, Call] | None:
    """What a rank called last out of its own round, and what it had called there before.

    The latest such pair; None where it went on with its round, or had repeated none. That proves
    nothing against it: a round may change.
    """
    log = case.log(rank)
    if log is None or not programs.is_whole(log):
        return None
    groups = case.comparison.groups
    program = programs.read(log, groups, case.dimensions, programs.Steps(), finished=False)
    if program is None:
        return None
    steps = program.steps
    for at in range(max(0, len(steps) - _LATEST), len(steps)):
        place = habit.expected(steps, at)
        if place is not None and steps[place] != steps[at]:
            made, usual = program.call(at), program.call(place)
            return (made, usual) if made is not None and usual is not None else None
    return None
