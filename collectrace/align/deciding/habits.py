"""Find what a rank usually does after a call, from its own earlier calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from collectrace.align.deciding.timeline import Entry
from collectrace.align.reading.evidence import ChannelKey, StreamKey

_MOST: Final = 200
"""Calls that are examined, and earlier calls that each is compared with."""

_LONGEST: Final = 64
"""Preceding calls that are compared at two positions."""


def earlier_same_calls(made: Sequence[Entry], at: int) -> Iterator[int]:
    """Return the earlier positions of the same call as the one at ``at``, latest first."""
    first = max(0, at - 2 * _MOST)
    return (n for n in range(at - 1, first - 1, -1) if made[n].place == made[at].place)


def find_departure(
    made: Sequence[Entry], first: int, key: StreamKey | ChannelKey | None
) -> tuple[int, Entry] | None:
    """Return the call after which a rank did something unusual, and its usual next call.

    The usual next call is the one that followed the longest equal sequence of calls. A next call
    that the rank had never made there ranks above one that it made in other iterations. None: the
    rank did nothing unusual.

    Args:
        made: the calls of the rank.
        first: the first position after which it may have departed.
        key: a stream or channel in which others wait; departures from it come first.

    """
    found: dict[tuple[bool, bool], tuple[int, Entry]] = {}
    for at in range(first, min(len(made) - 1, first + _MOST)):
        following = made[at + 1]
        before = list(earlier_same_calls(made, at))
        likely = made[_closest(made, at, before) + 1] if before else following
        if likely.place == following.place:
            continue
        is_new = all(made[n + 1].place != following.place for n in before)
        awaited = [n for n in before if made[n + 1].key == key]
        if following.key != key and awaited and (is_new or likely.key == key):
            likely = made[_closest(made, at, awaited) + 1]
        found.setdefault((likely.key == key, is_new), (at, likely))
    return found[max(found)] if found else None


def _closest(made: Sequence[Entry], at: int, before: Sequence[int]) -> int:
    """Return the position in ``before`` with the longest history in common with ``at``."""

    def shared(n: int) -> int:
        length = 0
        while length < min(n, _LONGEST) and made[n - length].place == made[at - length].place:
            length += 1
        return length

    return max(before, key=shared)
