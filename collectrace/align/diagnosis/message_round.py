"""Which call of its rank's round a message is: in all the rank did, not in one channel alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from collectrace import words
from collectrace.align.judging.case import Case
from collectrace.align.judging.own_round import program_of
from collectrace.align.matching import habit
from collectrace.align.matching.programs import Program
from collectrace.align.reading.evidence import LOOK_BACK, ChannelKey
from collectrace.findings import Side
from collectrace.records import Call


class _Place(NamedTuple):
    """Where in its rank's round a call is."""

    position: int
    """From 1."""
    period: int
    rounds: int
    """Equal rounds before, as far as was looked."""
    is_whole: bool
    """Whether all rounds were looked at."""

    @property
    def told(self) -> str:
        """``the 3rd of 4 calls in each round of the loop, after 5 equal rounds``."""
        more = "" if self.is_whole else "more than "
        return (
            f"the {words.ordinal(self.position)} of {self.period} calls in each round of the loop, "
            f"after {more}{words.counted(self.rounds, 'equal round')}"
        )


def told(case: Case, sides: Sequence[tuple[Side, Call]]) -> str:
    """Which call of the round those of some sides are; empty where they are in none, or alone."""
    by_place: dict[_Place, list[int]] = {}
    for side, call in sides:
        place = _place(case, side.ranks[0], call)
        if place is not None:
            by_place.setdefault(place, []).extend(side.ranks)
    if len(by_place) == 1 and len(next(iter(by_place.values()))) == _count(sides):
        return next(iter(by_place)).told
    return "; ".join(f"on {words.ranks(ranks)} {one.told}" for one, ranks in by_place.items())


def _count(sides: Sequence[tuple[Side, Call]]) -> int:
    return sum(len(side.ranks) for side, _ in sides)


def _place(case: Case, rank: int, call: Call) -> _Place | None:
    """Where in its rank's round a call is; None: it is out of it, or there is none."""
    program = program_of(case, rank)
    at = _index(program, rank, call) if program is not None else None
    if program is None or at is None:
        return None
    start = max(0, at - LOOK_BACK)
    before = program.steps[start:at]
    period, length = habit.repetition(before)
    if period < 2:
        return None
    position = _in_unit(program, at, start, period) if call.iteration is not None else None
    if call.iteration is None and before[-period] == program.steps[at]:
        position = length % period
    if position is None:
        return None
    is_whole = not start or length < len(before)
    return _Place(position + 1, period, length // period, is_whole)


def _in_unit(program: Program, at: int, start: int, period: int) -> int | None:
    """The position of a step in its unit of work, from 0, if a whole unit before has it there."""
    units: list[tuple[int | None, list[int]]] = []
    for n in range(start, at + 1):
        call = program.call(n)
        unit = call.iteration if call is not None else None
        if not units or units[-1][0] != unit:
            units.append((unit, []))
        units[-1][1].append(program.steps[n])
    *earlier, (_, mine) = units
    position = len(mine) - 1
    whole = (steps for _, steps in reversed(earlier) if len(steps) == period)
    return position if next(whole, [])[position : position + 1] == mine[-1:] else None


def _index(program: Program, rank: int, call: Call) -> int | None:
    """Which step of its rank's program a call is."""
    ends = (call.peer, rank) if call.op == "recv" else (rank, call.peer)
    own = {
        n
        for n, key in enumerate(program.keys)
        if key.device == call.device
        and (
            (key.source, key.destination, key.tag) == (*ends, call.tag or 0)
            if isinstance(key, ChannelKey)
            else call.peer is None
        )
    }
    for n in reversed(range(len(program.rows))):
        if program.rows[n] == call.seq and program.sources[n] in own:
            found = program.call(n)
            if found is not None and found.t == call.t:
                return n
    return None
