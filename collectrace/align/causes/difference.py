"""How the two sides of a finding differ after their last common call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from collectrace.align.code.between import Finished, Raised
from collectrace.align.deciding import timeline
from collectrace.align.deciding.sides import Pair
from collectrace.align.deciding.timeline import Entry
from collectrace.align.judging.case import Case
from collectrace.align.judging.departures import Departure, What
from collectrace.align.judging.own_calls import call_of

_MOST: Final = 64
"""Calls after an earlier occurrence that are examined."""

_MOST_OCCURRENCES: Final = 50
"""Earlier occurrences of the last common call that are examined, latest first."""

_MOST_SWAPPED: Final = 8
"""Longest sequence of swapped calls that is recognised."""


def differences(case: Case, pair: Pair) -> list[Departure]:
    """Return how each of two sides departs from the other, as far as the records show it.

    A side skipped calls if its call usually follows those of the other side. It made an extra call
    if its call is not usual there, and that of the other side is. Usual is what either side did
    earlier after the same call, or else what the other side did.
    """
    return _Sides(case, pair).departures()


class _Sides:
    def __init__(self, case: Case, pair: Pair) -> None:
        self._case = case
        self._pair = pair
        self._following = [self._after(n) for n in (0, 1)]

    def departures(self) -> list[Departure]:
        sides = self._pair.one, self._pair.two
        ended = [n for n in (0, 1) if isinstance(sides[n].next, Finished | Raised)]
        if ended or not all(self._following):
            return [self._departure(What.ENDED, n, ()) for n in ended]
        mine, theirs = self._following
        if mine[0].place == theirs[0].place:
            return [self._departure(What.OTHER_ARGUMENTS, n, ((n, mine[0]),)) for n in (0, 1)]
        if n := _swapped(mine, theirs):
            return [
                self._departure(What.SWAPPED, k, tuple((k, one) for one in self._following[k][:n]))
                for k in (0, 1)
            ]
        return self._skipped() or self._extra()

    def _skipped(self) -> list[Departure]:
        for n in (0, 1):
            usual = self._usual(1 - n) or [(1 - n, one) for one in self._following[1 - n][:_MOST]]
            places = [one.place for _, one in usual]
            made = self._following[n][0].place
            if made in places and places[0] == self._following[1 - n][0].place:
                return [self._departure(What.SKIPPED, n, tuple(usual[: places.index(made)]))]
        return []

    def _extra(self) -> list[Departure]:
        for n in (0, 1):
            if self._usual(1 - n):
                return [self._departure(What.EXTRA, n, ((n, self._following[n][0]),))]
        return []

    def _usual(self, n: int) -> list[tuple[int, Entry]]:
        """Return what followed earlier occurrences of the last common call, with side numbers.

        Empty unless some occurrence was followed by the next call of side ``n``.
        """
        first = self._following[n][0].place
        for side, made in enumerate(self._pair.made):
            before = [k for k in range(len(made) - 1) if made[k].place == made[-1].place]
            for k in reversed(before[-_MOST_OCCURRENCES:]):
                if made[k + 1].place == first:
                    return [(side, one) for one in made[k + 1 : k + 1 + _MOST]]
        return []

    def _after(self, n: int) -> Sequence[Entry]:
        """Return the calls of one side after the last common one, in the same thread."""
        log, t, made = self._case.log(self._pair.ranks[n]), self._pair.times[n], self._pair.made[n]
        if log is None:
            return ()
        beside = made[-1].beside if made else False
        calls = [one for one in timeline.calls_before(log) if one.beside == beside]
        if t is not None:
            return [one for one in calls if one.t >= t]
        return [one for one in calls if not made or one.t > made[-1].t]

    def _departure(self, what: What, n: int, made: Sequence[tuple[int, Entry]]) -> Departure:
        found = (call_of(self._case, self._pair.ranks[side], one) for side, one in made)
        calls = tuple(filter(None, found))
        rank = self._pair.ranks[n]
        own = self._following[n][0] if self._following[n] else None
        return Departure(
            what, (rank,),
            () if self._pair.is_of_one_rank else (self._pair.ranks[1 - n],),
            own.key if own is not None else None, own.seq if own is not None else None,
            calls, stack=self._case.stack(self._pair.ranks[made[0][0]], calls[0]) if calls else (),
            iteration=calls[0].iteration if calls else None,
        )  # fmt: skip


def _swapped(one: Sequence[Entry], two: Sequence[Entry]) -> int:
    """Return how many next calls both sides made in different orders; 0: they differ."""
    mine, theirs = (
        [(made.place[0], *made.place[1][:1]) for made in those[:_MOST_SWAPPED]]
        for those in (one, two)
    )
    for n in range(2, min(len(mine), len(theirs)) + 1):
        if mine[0] != theirs[0] and sorted(mine[:n]) == sorted(theirs[:n]):
            return n
    return 0
