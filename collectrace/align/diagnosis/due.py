"""At which line ranks were due that came to another one, or to none.

Leader and follower have lines of their own. A line of the one meets a line of the other, round by
round. Where two that never met come to one call, the other's line tells from where a rank should
have come.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from collectrace import words
from collectrace.align.diagnosis import ways_past
from collectrace.align.diagnosis.standpoint import Standpoint
from collectrace.align.diagnosis.wording import Reason
from collectrace.align.judging.case import Case
from collectrace.align.judging.usual import goes_on
from collectrace.align.matching.parting import Parting
from collectrace.align.reading import chains
from collectrace.align.reading.evidence import StreamKey
from collectrace.records import Call


class _Due(NamedTuple):
    """A side, where it is, and the line by which it met what the other issues now."""

    point: Standpoint
    here: str
    """The outermost frame in which the two differ: of where it is,"""
    there: str
    """and of where it was due."""
    meant: Standpoint

    @property
    def told(self) -> str:
        """``the broadcast at serve.py:82``."""
        return f"the {words.name(self.meant.call)}{words.at_site(chains.site(self.there))}"


def reason(
    case: Case, stream: StreamKey, found: Parting, points: Sequence[Standpoint],
    suspects: Sequence[int],
) -> Reason | None:  # fmt: skip
    """Who left out, or put off, what always met the other's line; None: no such line is known.

    Args:
        case: the run.
        stream: the collectives among which the sides parted.
        found: the row.
        points: who stands there for its side, in the order of ``found``.
        suspects: ranks to blame.

    """
    sides = _sides(case, stream, found, points)
    if sides is None:
        return None
    one, two = sides
    told = [
        f"{words.ranks(side.point.ranks)} {words.verb(side.point.ranks, 'is', 'are')} at "
        f"{side.point.at(side.here)}, which met {words.site(chains.site(other.there))} of "
        f"{words.ranks(other.point.ranks)} before"
        for side, other in ((one, two), (two, one))
    ]
    who = [side for side in sides if set(side.point.ranks) <= set(suspects)]
    kept = [
        goes_on(case, rank, stream, call)
        for rank, call in zip(found.ranks, found.calls, strict=True)
    ]
    if sorted(kept) == [False, True]:
        left = sides[kept.index(False)]
        if who and left not in who:
            return None  # who is blamed went on as ever: what the others left out tells more
        who = [left]
    alone = who[0] if len(who) == 1 else None
    missed = [
        f"{words.ranks(side.point.ranks)} left out, or put off, {side.told}"
        for side in ([alone] if alone else sides)
    ]
    either = "Either " if alone is None else "So "
    ways = _ways(case, alone) if alone else None
    return Reason(
        f"At call {found.seq} {told[0]}; {told[1]}. {either}{', or '.join(missed)}."
        f"{ways.cause if ways else ''}",
        "\n".join([*([ways.fix] if ways else []), _fix(alone)]),
        "some ranks",
    )


def _sides(
    case: Case, stream: StreamKey, found: Parting, points: Sequence[Standpoint]
) -> tuple[_Due, _Due] | None:
    rows = list(case.met(found.ranks, stream, found.seq))
    now = [case.stack(rank, call) for rank, call in zip(found.ranks, found.calls, strict=True)]
    of_one = {stack: call for (call, stack), (_, other) in rows if other == now[1]}
    of_two = {stack: call for (_, other), (call, stack) in rows if other == now[0]}
    if len(of_one) != 1 or len(of_two) != 1 or now[0] == now[1]:
        return None
    sides = [
        _side(point, stack, *meant.popitem())
        for point, stack, meant in zip(points, now, (of_one, of_two), strict=True)
    ]
    if any(not side.here or not side.there for side in sides):
        return None
    if {side.here for side in sides} & {side.there for side in sides}:
        return None  # a program that all ranks run: each line meets itself
    return sides[0], sides[1]


def _side(point: Standpoint, now: Sequence[str], meant: Sequence[str], call: Call) -> _Due:
    here, there = chains.outermost_apart(now, meant)
    return _Due(point, here, there, Standpoint(point.ranks, call, meant))


def _ways(case: Case, side: _Due) -> Reason | None:
    """The ways past what a rank left out, from its line outwards to what it is still in."""
    inner = side.meant.stack.index(side.there)
    still = chains.shared(side.meant.stack, side.point.stack)
    outward = side.meant.stack[inner : len(side.meant.stack) - max(still - 1, 0)]
    ways = ways_past.few(case, outward)
    if not ways:
        return None
    return Reason(
        ways_past.led(ways, words.ranks(side.point.ranks)),
        ways_past.of_others(side.meant, side.point.ranks, ways).fix,
    )


def _fix(side: _Due | None) -> str:
    if side is None:
        return (
            "Look above these lines for the branch, the loop or the exception that sent one side "
            "past its call, and let both take the same steps: what one side begins, the other ends."
        )
    here, there = (words.site(chains.site(frame)) for frame in (side.here, side.there))
    who = words.ranks(side.point.ranks)
    return (
        f"Look why {who} came to {here} and not to {there}: an exception that was caught, an early "
        "return, a round left out. Check all that may fail before the first call of a round, or "
        "tell the others that the rest of it will not come."
    )
