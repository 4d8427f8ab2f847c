"""A call that a rank had always made behind the one before its last, and did not this time.

Where it has repeated no round to its end, so that one may say what it left: a loop has been left
since, or turns differ. That proves nothing against it, but tells what is new.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from collectrace.align.judging.case import Case
from collectrace.align.judging.own_round import program_of
from collectrace.align.matching import habit
from collectrace.records import Call

_MOST: Final = 2
"""Ways to go on behind a call: to the next turn of a loop, and out of it."""


class NewTurn(NamedTuple):
    """What a rank called last, and what it had called there each time before."""

    rank: int
    before: Call
    made: Call
    usual: tuple[Call, ...]
    """The latest of each way in which it had gone on, the most frequent first, which it had gone
    at least ``habit.ENOUGH`` times."""
    times: int
    """Of all of these."""


def new_turn(case: Case, rank: int) -> NewTurn | None:
    """How a rank had always gone on behind its last call but one; None: this time, too."""
    program = program_of(case, rank)
    if program is None or len(program.steps) < 2:
        return None
    *steps, before, made = program.steps
    behind = {n + 1: program.steps[n + 1] for n, step in enumerate(steps) if step == before}
    ways = Counter(behind.values())
    if made in ways or not 0 < len(ways) <= _MOST or max(ways.values()) < habit.ENOUGH:
        return None
    latest = {step: at for at, step in behind.items()}
    places = [len(steps), len(steps) + 1, *(latest[step] for step, _ in ways.most_common())]
    calls = [call for at in places if (call := program.call(at)) is not None]
    if len(calls) < len(places) or len({call.thread for call in calls}) > 1:
        return None  # calls of several threads have no order
    return NewTurn(rank, calls[0], calls[1], tuple(calls[2:]), ways.total())
