"""How two sides of a finding differ after their last common call: skipped, extra, other, ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from collectrace.align.code.between import Finished, Raised
from collectrace.align.deciding import timeline
from collectrace.align.deciding.sides import Pair
from collectrace.align.deciding.timeline import Entry
from collectrace.align.judging.case import Case
from collectrace.align.reading.vocabulary import CallPlace

What = Literal["skipped", "extra", "other", "ended", "same"]

_MOST: Final = 256
"""Calls after an earlier occurrence that are looked at."""

_MOST_OCCURRENCES: Final = 50
"""Earlier occurrences of the last common call that are looked at, the latest first."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What one side did, compared with the other."""

    what: What
    """``skipped``: it made a call that usually comes after those that the other made first.
    ``extra``: it made a call that usually does not come there. ``other``: the records do not show
    which of the two calls is the usual one. ``ended``: it made no further call. ``same``: both made
    the same call from the same line."""
    rank: int
    """The rank that did it."""
    places: tuple[CallPlace, ...] = ()
    """The calls that it skipped, or made in addition."""


def differences(case: Case, pair: Pair) -> tuple[Difference, Difference]:
    """Return how each of two sides departs from the other."""
    one, two = pair.ranks
    following = [_following(case, pair, n) for n in (0, 1)]
    ends = [isinstance(side.next, Finished | Raised) for side in (pair.one, pair.two)]
    first = [those[0].place if those else None for those in following]
    if any(ends) or None in first:
        return tuple(
            Difference("ended" if end else "other", rank)
            for rank, end in zip((one, two), ends, strict=True)
        )  # type: ignore[return-value]
    mine, theirs = first[0], first[1]
    if mine is None or theirs is None or mine == theirs:
        return Difference("same", one), Difference("same", two)
    for n, (rank, other) in enumerate(((one, two), (two, one))):
        wanted, instead = (mine, theirs) if n == 0 else (theirs, mine)
        usual = _usual(pair, instead) or [e.place for e in following[1 - n][:_MOST]]
        skipped = _until(usual, wanted) if usual and usual[0] == instead else None
        if skipped:
            found = (
                Difference("skipped", rank, tuple(skipped)),
                Difference("other", other),
            )
            return found if n == 0 else (found[1], found[0])
    for n, (rank, other) in enumerate(((one, two), (two, one))):
        wanted, instead = (mine, theirs) if n == 0 else (theirs, mine)
        usual = _usual(pair, instead)
        if usual:
            found = Difference("extra", rank, (wanted,)), Difference("other", other)
            return found if n == 0 else (found[1], found[0])
    return Difference("other", one), Difference("other", two)


def _until(places: Sequence[CallPlace], wanted: CallPlace) -> list[CallPlace] | None:
    """Return the calls before a call; None: it is not among them."""
    for n, place in enumerate(places):
        if place == wanted:
            return list(places[:n])
    return None


def _following(case: Case, pair: Pair, n: int) -> Sequence[Entry]:
    """Return the calls of one side after the last common one, of the same thread."""
    log = case.log(pair.ranks[n])
    if log is None:
        return ()
    t = pair.times[n]
    made = pair.made[n]
    beside = made[-1].beside if made else False
    calls = [e for e in timeline.before(log) if e.beside == beside]
    if t is not None:
        return [e for e in calls if e.t >= t]
    return [e for e in calls if not made or e.t > made[-1].t]


def _usual(pair: Pair, first: CallPlace) -> list[CallPlace]:
    """Return the calls that followed the last common one before, if the first of them was this."""
    for made in pair.made:
        if not made:
            continue
        last = made[-1].place
        found = 0
        for n in range(len(made) - 2, -1, -1):
            if made[n].place != last:
                continue
            if made[n + 1].place == first:
                return [e.place for e in made[n + 1 : n + 1 + _MOST]]
            found += 1
            if found >= _MOST_OCCURRENCES:
                break
    return []
