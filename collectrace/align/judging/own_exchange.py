"""In which order a rank exchanges messages, from one collective to the next, each time.

A round may differ from the one before in what comes between two exchanges, as where every other
step is saved; an exchange by itself may be the same each time all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from collectrace.align.judging.case import Case, once_of
from collectrace.align.judging.own_round import LeftRound, program_of
from collectrace.align.matching import habit
from collectrace.align.matching.programs import Program
from collectrace.align.reading.evidence import ChannelKey


@once_of
def left_own_order(case: Case, rank: int) -> LeftRound | None:
    """The message of an exchange that a rank made before one that had always come earlier."""
    found = _present(case, rank)
    if found is None:
        return None
    program, usual, now, rounds = found
    steps, at, place = program.steps, now[-1], usual[len(now) - 1]
    is_kept = [steps[n] for n in now[:-1]] == [steps[n] for n in usual[: len(now) - 1]]
    ahead = [steps[n] for n in usual[len(now) :]]
    if not is_kept or steps[at] == steps[place]:
        return None
    if steps[at] not in ahead:
        return None  # it is none of the exchange's
    made, due = program.call(at), program.call(place)
    if made is None or due is None or made.thread != due.thread:
        return None  # calls of several threads have no order to leave
    return LeftRound(
        rank=rank,
        made=made,
        usual=due,
        before=program.call(at - 1),
        key=program.keys[program.sources[place]],
        extra=0,
        skipped=ahead.index(steps[at]) + 1,
        rounds=rounds,
        row=1,
    )


@once_of
def keeps_order(case: Case, rank: int) -> bool:
    """Whether a rank is in an exchange in which it has kept the order of each one before."""
    found = _present(case, rank)
    if found is None:
        return False
    program, usual, now, _ = found
    return [program.steps[n] for n in now] == [program.steps[n] for n in usual[: len(now)]]


class _Present(NamedTuple):
    """The exchange that a rank is in."""

    program: Program
    usual: range
    """The steps of the latest before, as long as it at least."""
    now: range
    rounds: int
    """Exchanges before, which all began alike as far as this one has come."""


def _present(case: Case, rank: int) -> _Present | None:
    """None where a rank is in none, or exchanges did not begin alike, or not often enough."""
    program = program_of(case, rank)
    if program is None:
        return None
    *runs, now = _runs(program)
    before = [one for one in runs if one]
    begun = {tuple(program.steps[n] for n in one[: len(now)]) for one in before}
    if not now or len(before) < habit.ENOUGH or len(begun) != 1 or len(before[-1]) < len(now):
        return None
    return _Present(program, before[-1], now, len(before))


def _runs(program: Program) -> Iterator[range]:
    """The messages between two collectives each time; none where those are neighbours."""
    begin = 0
    for at, which in enumerate(program.sources):
        if not isinstance(program.keys[which], ChannelKey):
            yield range(begin, at)
            begin = at + 1
    yield range(begin, len(program.sources))
