"""Calls that only some ranks made, and that met a step of the others without harm to the bytes."""

from __future__ import annotations

from collectrace import words
from collectrace.align.diagnosis import decided, standpoint
from collectrace.align.diagnosis.callers import place_of
from collectrace.align.diagnosis.wording import EVERY_RANK, Reason
from collectrace.align.judging.by_rank import by_rank
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.parted import parted, passed_by


def reason(case: Case, candidate: Candidate) -> Reason | None:
    """The first of these, where a condition on the rank let the suspects, and nobody else, make it.

    None where the sides are known to have been apart since: then it is told what came of that.
    """
    found, since = by_rank(case, candidate), passed_by(case, candidate)
    if found is None or since is None or found.seq != since.seq or since.seq == candidate.seq:
        return None
    if set(found.ranks) != set(candidate.suspects) or parted(case, candidate) is not None:
        return None
    points = standpoint.of_parting(case, candidate, since)
    (mine, theirs), (call, other) = points, since.calls
    who, those = words.ranks(mine.ranks), words.ranks(theirs.ranks)
    decides = decided.of_points(case, candidate, points, candidate.suspects, by_line=True)
    cause = (
        f"At call {since.seq} {who} issued {words.name(call)}{place_of(case, since.ranks[0], call)}"
        f", where {those} issued {words.name(other)}{place_of(case, since.ranks[1], other)}, which "
        f"before met the same line of {who}."
    )
    fitted = f" Their bytes fit, so nothing failed before call {candidate.seq}."
    return Reason(
        f"{cause}{decides.cause if decides is not None else ''}{fitted}",
        (decides.fix if decides is not None else "") or EVERY_RANK,
        "some ranks",
    )
