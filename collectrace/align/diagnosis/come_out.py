"""Who has come out of a loop that others go on in."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from collectrace.align.diagnosis import fewer_rounds
from collectrace.align.diagnosis.loop_lines import (
    Left,
    LoopLine,
    around_both,
    come_out_of,
    is_fixed,
    loops_around,
)
from collectrace.align.diagnosis.standpoint import Standpoint, standpoints
from collectrace.align.judging import choices
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.reading import chains
from collectrace.signature import is_asked

KEEPS: Final = "torchmetrics."
"""Roles of a library that keeps what it has computed (metric.py, _wrap_compute, 1.9.0)."""


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
        around = case.loops(gone.stack[len(gone.stack) - _common_of(gone, inside) - 1 :])
        # Who is blamed for another call may be at the first turn of the loop too soon.
        usual = tuple(gone.stack) in stacks
        if usual and not set(inside.ranks) <= set(candidate.suspects):
            return Left(gone, inside, loop)
        there = (usual and around) or _is_behind(gone, inside)
        if there and (not around or _is_come_to(case, gone, inside, loop)):
            return Left(gone, inside, loop)
    return None


def _is_behind(gone: Standpoint, inside: Standpoint) -> bool:
    """Whether a line is behind another's, or in another function that is called there."""
    here, there = chains.outermost_apart(gone.stack, inside.stack)
    if not here or not there:
        return False
    if chains.scope(here) == chains.scope(there):
        return chains.line(here) > chains.line(there)
    return _common_of(gone, inside) > 0


def _is_come_to(case: Case, gone: Standpoint, inside: Standpoint, loop: LoopLine) -> bool:
    """Whether each turn of the loop around two lines comes to one of them: nothing leads past it.

    So who is at the other, in an inner loop, has not come round to that anew; as it must have, if
    that is of one length.
    """
    here, there = chains.outermost_apart(gone.stack, inside.stack)
    around = around_both(case, gone.stack, inside.stack)
    if not is_asked(gone.call) or gone.call.role.startswith(KEEPS):
        return False  # a library may have had no need of it
    if around is None or not here or chains.scope(here) != chains.scope(there):
        return False
    if is_fixed(case, loop) or fewer_rounds.seen(case, gone, inside.ranks, around).left_out:
        return False
    frames = list(gone.stack[: len(gone.stack) - _common_of(gone, inside)])
    inner = [
        one
        for one in loops_around(case, frames)
        if one.line not in case.statements(chains.site(there))
    ]
    return not inner and all(choices.calls_it_alone(case, *pair) for pair in pairwise(frames))


def _common_of(one: Standpoint, other: Standpoint) -> int:
    """How many frames are around both."""
    return chains.shared(one.stack, other.stack)
