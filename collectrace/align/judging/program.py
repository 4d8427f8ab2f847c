"""Find which rank left the program of its peers, if that led to a candidate."""

from __future__ import annotations

from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.matching.comparison import ChannelIssue, Divergence
from collectrace.align.matching.deviations import Deviation
from collectrace.align.reading.evidence import ChannelKey, StreamKey


@once
def deviation(case: Case, candidate: Candidate) -> Deviation | None:
    """Return how ranks left their program in a candidate's stream or channel, up to its call."""
    source = candidate.source
    places: list[tuple[StreamKey | ChannelKey | None, int]]
    if isinstance(source, Divergence):
        places = [(source.stream, source.seq)]
    elif isinstance(source, ChannelIssue):
        places = [(source.channel, source.seq)]
    elif candidate.cycle:
        waits = [edge.waiting for edge in candidate.cycle]
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
