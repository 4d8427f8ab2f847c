"""The next call of each side of a finding, after their last common call."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from collectrace import words
from collectrace.align.causes import deciders, structure
from collectrace.align.causes.situation import Situation
from collectrace.align.deciding import timeline
from collectrace.align.judging.departures import Departure, What
from collectrace.align.judging.own_calls import call_of
from collectrace.findings import Decision
from collectrace.records import Call


class NextCall(NamedTuple):
    """The next call of one side."""

    ranks: tuple[int, ...]
    rank: int
    """The rank that represents the side."""
    call: Call | None
    """None: it made no further call."""
    stack: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        """The ranks of the side in words, as the subject of a sentence."""
        return words.ranks(self.ranks)


def next_calls(situation: Situation) -> tuple[NextCall, NextCall] | None:
    """Return the next call of both sides, the suspects' first.

    If the last common call is not known, return the calls of the finding itself.
    """
    pair, case, departure = situation.pair, situation.case, situation.departure
    found: list[NextCall] = []
    if pair is None and departure is not None and departure.what is What.EXTRA:
        found = _extra(situation, departure)
    if pair is not None and not pair.is_of_one_rank:
        for rank, t in zip(pair.ranks, pair.times, strict=True):
            log = case.log(rank)
            entries = timeline.calls_before(log, t + 1) if log is not None and t is not None else []
            call = call_of(case, rank, entries[-1]) if entries else None
            if t is not None and call is None:
                found = []
                break
            stack = case.stack(rank, call) if call is not None else ()
            found.append(NextCall(_ranks(situation, rank), rank, call, stack))
    those = found or at_finding(situation)
    if len(those) < 2:
        return None
    one, two = sorted(those, key=lambda step: not {*step.ranks} & {*situation.suspects})[:2]
    return one, two


def _extra(situation: Situation, departure: Departure) -> list[NextCall]:
    """Return the extra calls of some ranks, and the call of the others in place of the first."""
    stream, seq = situation.candidate.stream, departure.seq
    if stream is None or departure.key != stream or seq is None or not departure.others:
        return []
    rank, case = departure.others[0], situation.case
    call = case.call(rank, stream, seq)
    return [
        NextCall(departure.ranks, departure.ranks[0], departure.calls[0], departure.stack),
        NextCall(departure.others, rank, call, case.stack(rank, call) if call else ()),
    ]


def called(steps: Iterable[NextCall]) -> list[tuple[NextCall, Call]]:
    """Return the sides that made a call, with the call."""
    return [(step, step.call) for step in steps if step.call is not None]


def at_finding(situation: Situation) -> list[NextCall]:
    """Return what each side called at the finding itself, suspects first."""
    suspects = set(situation.suspects)
    found = [
        NextCall(tuple(sorted(side.ranks)), side.ranks[0], side.call, side.stack or ())
        for side in situation.candidate.sides
        if side.ranks
    ]
    return sorted(found, key=lambda one: not set(one.ranks) & suspects)


def _ranks(situation: Situation, rank: int) -> tuple[int, ...]:
    sides = (side.ranks for side in situation.candidate.sides if rank in side.ranks)
    return tuple(sorted(next(sides, (rank,))))


@dataclass(frozen=True, slots=True)
class Left:
    """A loop that one side has left while the other is still in it."""

    loop: Decision
    gone: NextCall
    inside: NextCall


def left_loops(situation: Situation) -> list[Left]:
    """Return the loops among the decisions that one side has left and the other is in."""
    both = next_calls(situation)
    found: list[Left] = []
    for one in deciders.ranked(situation):
        if both is None or deciders.form(one) != "loop" or one.library is not None:
            continue
        inside = [structure.is_in_loop(situation, one, step.stack) for step in both]
        if inside.count(True) == 1:
            within, gone = both if inside[0] else both[::-1]
            if has_gone_on(situation, gone) and _was_near(situation, one, gone):
                found.append(Left(one, gone, within))
    return found


def has_gone_on(situation: Situation, step: NextCall) -> bool:
    """Whether a side made a further call, or its program ran to its end.

    Otherwise it may be stuck before what the others wait in, or have raised, exited or died there.
    """
    standing = situation.case.standings[step.rank]
    is_over = standing.state == "finished" and (standing.exit is None or standing.exit.site is None)
    return step.call is not None or is_over


def _was_near(situation: Situation, loop: Decision, gone: NextCall) -> bool:
    """Whether a side was in a loop before its next call, or is in the function around it."""
    pair = situation.pair
    if structure.is_in_function(situation, loop, gone.stack):
        return True
    made = pair.made[pair.ranks.index(gone.rank)] if pair and gone.rank in pair.ranks else ()
    return bool(made) and structure.is_in_loop(situation, loop, made[-1].stack)
