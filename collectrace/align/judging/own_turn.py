"""A call that a rank had always made behind the one before its last, and did not this time.

Where it has repeated no round to its end, so that one may say what it left: a loop has been left
since, or turns differ. That proves nothing against it, but tells what is new.
"""

from __future__ import annotations

from typing import NamedTuple

from collectrace.align.judging.case import Case
from collectrace.align.judging.own_round import program_of
from collectrace.align.matching import habit
from collectrace.records import Call


class LeftTurn(NamedTuple):
    """What a rank called last, and what it had called there each time before."""

    rank: int
    before: Call
    made: Call
    usual: Call
    """The latest of them."""
    times: int
    """At least ``habit.ENOUGH``."""


def left_own_turn(case: Case, rank: int) -> LeftTurn | None:
    """What a rank had always called behind its last call but one; None: this time, too."""
    program = program_of(case, rank)
    if program is None or len(program.steps) < 2:
        return None
    *steps, before, made = program.steps
    places = [n for n, step in enumerate(steps) if step == before]
    behind = {program.steps[n + 1] for n in places}
    if len(places) < habit.ENOUGH or len(behind) > 1 or made in behind:
        return None
    last = len(steps)
    calls = [program.call(at) for at in (last, last + 1, places[-1] + 1)]
    if None in calls or len({call.thread for call in calls if call is not None}) > 1:
        return None  # calls of several threads have no order
    one, two, usual = (call for call in calls if call is not None)
    return LeftTurn(rank, one, two, usual, len(places))
