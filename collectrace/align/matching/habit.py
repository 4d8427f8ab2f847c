"""What a rank would have done next, by what it did before: the round that it repeats.

Shortest periods mislead: two layers in a row look like a loop of one layer. So of all earlier
places that look like the present one the one counts that explains most, before it and after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

ENOUGH: Final = 3
"""Times that something was so each time, to say that it always is."""

_MOST_PLACES: Final = 512
"""Earlier places that are looked at, the latest first."""

_LONGEST: Final = 2048
"""Steps that are compared to either side of a place."""


def earlier(steps: Sequence[int], at: int) -> int | None:
    """The earlier place that position ``at`` repeats, by the steps before it and from it on.

    None where the step at ``at`` was never made before. Where several explain as much, the latest.
    """
    best, most = None, 0
    for place in _places(steps, steps[at], at):
        found = agreeing(steps, place, at) + _from(steps, place, at)
        if found > most:
            best, most = place, found
    return best


def expected(steps: Sequence[int], at: int) -> int | None:
    """The earlier place whose step the steps before ``at`` lead to: two whole rounds end there.

    None where they do not, or where two rounds of one length of evidence lead to different steps.
    """
    if not at:
        return None
    best: dict[int, tuple[int, int]] = {}
    for last in _places(steps, steps[at - 1], at - 1):
        place = last + 1
        found = agreeing(steps, place, at)
        if found >= at - place:
            best[steps[place]] = max((found, place), best.get(steps[place], (0, 0)))
    most = max((found for found, _ in best.values()), default=0)
    places = [place for found, place in best.values() if found == most]
    return places[0] if len(places) == 1 else None


def agreeing(steps: Sequence[int], place: int, at: int) -> int:
    """How many steps before two positions are the same."""
    most, n, width = min(place, _LONGEST), 0, 1
    while n < most and width:
        # Slices are compared ten times as fast as steps: wider ones while they agree.
        width = min(width, most - n)
        if steps[place - n - width : place - n] == steps[at - n - width : at - n]:
            n, width = n + width, width * 2
        else:
            most, width = n + width - 1, width // 2
    return n


def _places(steps: Sequence[int], step: int, before: int) -> list[int]:
    """The latest positions of a step before a position, the latest first."""
    found = []
    for place in range(before - 1, -1, -1):
        if steps[place] == step:
            found.append(place)
            if len(found) == _MOST_PLACES:
                break
    return found


def _from(steps: Sequence[int], place: int, at: int) -> int:
    """How many steps from two positions on are the same."""
    n = 0
    while n < min(len(steps) - at, _LONGEST) and steps[place + n] == steps[at + n]:
        n += 1
    return n
