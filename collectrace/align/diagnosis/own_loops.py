"""Two sides in loops of their own, whose calls met: one goes on in its, the other is out of its.

As where one rank sends what others take, each in a function of its own.
"""

from __future__ import annotations

from collectrace import words
from collectrace.align.diagnosis.callers import closed, named
from collectrace.align.diagnosis.loop_lines import innermost_loop, is_in
from collectrace.align.diagnosis.standpoint import standpoints
from collectrace.align.diagnosis.wording import Reason
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case


def reason(case: Case, candidate: Candidate) -> Reason | None:
    """Whose loop has a turn more; None: they are not in two such loops."""
    points = standpoints(candidate)
    if len(points) != 2 or candidate.cause is not None:
        return None
    for inside, gone in (points, points[::-1]):
        mine, theirs = (
            case.last_before(one.ranks[0], candidate.stream, candidate.seq)
            for one in (inside, gone)
        )
        if mine is None or theirs is None:
            continue
        last, other = (
            case.stack(one.ranks[0], call) for one, call in ((inside, mine), (gone, theirs))
        )
        loop, left = innermost_loop(case, inside.stack), innermost_loop(case, other)
        if loop is None or left is None or last != tuple(inside.stack):
            continue
        if is_in(case, gone.stack, left) or is_in(case, other, loop):
            continue
        if is_in(case, inside.stack, left):
            continue
        who, others = words.ranks(inside.ranks), words.ranks(gone.ranks)
        went = named(case, gone.ranks[0], gone.call, brief=True)
        return Reason(
            f"{words.upper(who)} {words.verb(inside.ranks, 'goes', 'go')} through {loop.quoted} "
            f"once more, with {closed(named(case, inside.ranks[0], inside.call))} of "
            f"{words.tensors(inside.call)}; {others} {words.verb(gone.ranks, 'is', 'are')} out of "
            f"{left.quoted}, whose calls met those till then, and went on to {went}.",
            f"Let {loop.quoted} and {left.quoted} go over the same things, equally often: the same "
            "on every rank, counted alike, or tell the others first how many are to come.",
            "uneven",
        )
    return None
