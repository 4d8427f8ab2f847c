"""Who has come out of a loop that others go on in."""

from __future__ import annotations

from collectrace.align.diagnosis import fewer_rounds
from collectrace.align.diagnosis.loop_lines import Left, around_both, come_out_of
from collectrace.align.diagnosis.standpoint import Standpoint, standpoints
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.reading import chains


@once
def out_of(case: Case, candidate: Candidate) -> Left | None:
    """Who is out of a loop that the other side goes on in, and was in it by its call before.

    Who is at a line that it has been at before, or behind that of the others, where nothing leads
    from a loop around both back into this one but by that line. Else who is out may be on a branch
    of the outer loop, and the others at the first turn of the inner one.
    """
    points = standpoints(candidate)
    if len(points) != 2 or candidate.stream is None or candidate.seq is None:
        return None
    for gone, inside in (points, points[::-1]):
        calls = case.before(gone.ranks[0], candidate.stream, candidate.seq)
        loop = come_out_of(case, inside, gone, calls[-1]) if calls else None
        if loop is None:
            continue
        stacks = [case.stack(gone.ranks[0], call) for call in calls if call is not None]
        # Who is blamed for another call may be at the first turn of the loop too soon.
        usual = tuple(gone.stack) in stacks and not set(inside.ranks) <= set(candidate.suspects)
        if usual or _is_behind(case, gone, inside):
            return Left(gone, inside, loop)
    return None


def _is_behind(case: Case, gone: Standpoint, inside: Standpoint) -> bool:
    """Whether a line is behind another's, or at the same, and no loop leads past it.

    A loop around both leads back to the other line, past this one if a condition or a jump may
    leave it out.
    """
    common = chains.shared(gone.stack, inside.stack)
    here, there = chains.outermost_apart(gone.stack, inside.stack)
    if not here or not there:
        return False
    is_one_function = chains.scope(here) == chains.scope(there)
    if case.loops(gone.stack[len(gone.stack) - common - 1 :]):
        around = around_both(case, gone.stack, inside.stack)
        if not is_one_function or around is None:
            return False
        if fewer_rounds.seen(case, gone, inside.ranks, around).left_out:
            return False
    return chains.line(here) > chains.line(there) if is_one_function else common > 0
