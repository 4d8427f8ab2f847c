"""In which order a rank exchanges messages, from one collective to the next, each time.

A round may differ from the one before in what comes between two exchanges, as where every other
step is saved; an exchange by itself may be the same each time all the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from collectrace.align.judging.case import Case, once_of_rank
from collectrace.align.judging.own_round import LeftRound, program_of
from collectrace.align.matching import habit
from collectrace.align.matching.programs import Program
from collectrace.align.reading.evidence import ChannelKey


@once_of_rank
def left_own_order(case: Case, rank: int) -> LeftRound | None:
    """The message of an exchange that a rank made before one that had always come earlier."""
    program = program_of(case, rank)
    before, now = _exchanges(program) if program is not None else ([], range(0))
    if program is None or not now or not _agree(program, before, len(now)):
        return None
    steps, at, place = program.steps, now[-1], before[-1][len(now) - 1]
    usual = [steps[n] for n in before[-1]]
    if [steps[n] for n in now[:-1]] != usual[: len(now) - 1] or steps[at] == steps[place]:
        return None
    if steps[at] not in usual[len(now) :]:
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
        skipped=usual[len(now) :].index(steps[at]) + 1,
        rounds=len(before),
        row=1,
    )


@once_of_rank
def keeps_order(case: Case, rank: int) -> bool:
    """Whether a rank is in an exchange in which it has kept the order of each one before."""
    program = program_of(case, rank)
    before, now = _exchanges(program) if program is not None else ([], range(0))
    if program is None or not now or not _agree(program, before, len(now)):
        return False
    steps = program.steps
    return [steps[n] for n in now] == [steps[n] for n in before[-1][: len(now)]]


def _agree(program: Program, exchanges: list[range], length: int) -> bool:
    """Whether exchanges began alike, so many messages far, and often enough to say: always."""
    begun = {tuple(program.steps[n] for n in one[:length]) for one in exchanges}
    return len(exchanges) >= habit.ENOUGH and len(begun) == 1 and len(exchanges[-1]) >= length


def _exchanges(program: Program) -> tuple[list[range], range]:
    """The steps of each exchange that a collective ended, and of the present one; empty: none."""
    *before, now = _runs(program)
    return [one for one in before if one], now


def _runs(program: Program) -> Iterator[range]:
    """The messages between two collectives each time; none where those are neighbours."""
    begin = 0
    for at, which in enumerate(program.sources):
        if not isinstance(program.keys[which], ChannelKey):
            yield range(begin, at)
            begin = at + 1
    yield range(begin, len(program.sources))
