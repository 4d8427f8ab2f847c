"""A line that only the suspects ever came to."""

from __future__ import annotations

from collectrace import words
from collectrace.align.diagnosis.callers import telling
from collectrace.align.diagnosis.wording import called
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.matching import parting
from collectrace.align.reading import chains
from collectrace.findings import Side
from collectrace.records import Call
from collectrace.signature import stands_at_its_line


def told(case: Case, candidate: Candidate) -> str:
    """That no other rank of the group ever came to the suspects' line: after a space.

    So it is, too, of a line behind a loop that ended there only: by itself it tells no branch.
    """
    found = only_here(case, candidate)
    if found is None:
        return ""
    side, call = found
    return f" Only {words.ranks(side.ranks)} ever came to {words.site(call.site or '')}."


@once
def only_here(case: Case, candidate: Candidate) -> tuple[Side, Call] | None:
    """The suspects' call of their own, if its line is one to which no other rank ever came.

    None where a log was not read from end to end, or has lost calls.
    """
    own = [
        (side, telling(case, side.ranks[0], call))
        for side, call in called(candidate)
        if stands_at_its_line(call) and call.site and set(side.ranks) <= set(candidate.suspects)
    ]
    if len(own) != 1 or candidate.stream is None or candidate.unknown:
        return None
    side, call = own[0]
    members = case.comparison.streams.get(candidate.stream, ())
    for rank in members:
        log = case.log(rank)
        if log is None or not log.scanned or parting.has_lost(log):
            return None
        if rank in side.ranks:
            continue
        rows, _ = log.rows(candidate.stream)
        stacks = (rows.vocabulary.appearances[n].where for n in set(rows.appearance))
        if any(call.site == chains.site(frame) for frames in stacks for frame in frames):
            return None
    return (side, call) if len(members) > len(side.ranks) else None
