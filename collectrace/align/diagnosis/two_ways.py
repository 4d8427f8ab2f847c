"""Ranks in the two arms of a condition: a call of both arms met, and what came behind it did not.

As where a rank without work runs a step for show, with the calls of the real one in another order:
that ranks take different arms is meant, and that the arms differ in their calls is not.
"""

from __future__ import annotations

from collections.abc import Sequence

from collectrace import words
from collectrace.align.diagnosis.standpoint import Standpoint
from collectrace.align.diagnosis.wording import Reason, called, quoted
from collectrace.align.judging import choices
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.rounds import frames_before
from collectrace.align.matching.parting import Parting
from collectrace.align.reading import chains


def reason(
    case: Case, candidate: Candidate, found: Parting, points: Sequence[Standpoint]
) -> Reason | None:
    """Both sides made one call since they parted, each in its arm; None: it is not so.

    Args:
        case: the run.
        candidate: the row that failed.
        found: where they had parted before.
        points: where the sides stood there.

    """
    here, there = chains.outermost_apart(points[0].stack, points[1].stack)
    if not here or not there or points[0].stack[:1] != points[1].stack[:1]:
        return None
    if chains.scope(here) != chains.scope(there) or candidate.stream is None:
        return None
    ranks, stream = found.ranks, candidate.stream
    if {here, there} <= {f for one in ranks for f in frames_before(case, one, stream, found.seq)}:
        return None  # they go through both in turn, and some may be a turn further
    head = choices.fork(case, chains.site(here), chains.site(there))
    rows = [_in_arm(candidate, p, f) for p, f in zip(points, (here, there), strict=True)]
    if head is None or None in rows:
        return None
    at = [words.site(chains.site(frame)) for frame in (here, there)]
    who = [words.ranks(point.ranks) for point in points]
    condition, call = quoted(chains.file(here), head), points[0].call
    return Reason(
        f"Since call {found.seq} {who[0]} {words.verb(points[0].ranks, 'has', 'have')} been in one "
        f"arm of {condition}, at {at[0]}, {who[1]} in the other, at {at[1]}. Both began with "
        f"{words.name(call)}{words.at(call)}, so nothing failed; then {who[0]} went on to "
        f"{rows[0]}, {who[1]} to {rows[1]}: the two do not issue the same calls in one order.",
        f"Where ranks may be in different arms of {condition}: issue the same collectives in each, "
        f"at {at[0]} and at {at[1]}, in one order and of the same sizes. Else let all ranks take "
        "the same way.",
        "some ranks",
    )


def _in_arm(candidate: Candidate, point: Standpoint, frame: str) -> str | None:
    """Where a side stands at the row itself, if that is still within the line of its arm."""
    depth = len(point.stack) - point.stack.index(frame)
    for side, call in called(candidate):
        stack = side.stack or ()
        if side.ranks == point.ranks and tuple(stack[-depth:]) == tuple(point.stack[-depth:]):
            further = stack[-depth - 1] if len(stack) > depth else stack[0]
            return Standpoint(side.ranks, call, stack).at(further)
    return None
