"""Predict the next call of a rank from the sequence that it repeats.

Shortest periods mislead: two layers in a row look like a loop of one layer. So of all earlier
positions that look like the present one, the one with the longest agreement before and after
counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

ENOUGH: Final = 3
"""Repetitions that are enough to call something usual."""

_MOST_PLACES: Final = 512
"""Earlier positions that are examined, the latest first."""

_LONGEST: Final = 2048
"""Steps that are compared on either side of a position."""


def earlier(steps: Sequence[int], at: int) -> int | None:
    """Return the earlier position that ``at`` repeats, by the steps before it and from it on.

    None if the step at ``at`` was never made before. If several are equally good, the latest
    counts.
    """
    best, most = None, 0
    for place in _places(steps, steps[at], at):
        found = agreeing(steps, place, at) + _from(steps, place, at)
        if found > most:
            best, most = place, found
    return best


def expected(steps: Sequence[int], at: int) -> int | None:
    """Return the earlier position of the step that the steps before ``at`` lead to.

    Two whole iterations must end there. None if they do not, or if equally strong evidence leads to
    different steps.
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
    """Return how many steps before two positions are the same."""
    most, n, width = min(place, _LONGEST), 0, 1
    while n < most and width:
        # Comparing slices is ten times as fast as comparing steps: widen them while they agree.
        width = min(width, most - n)
        if steps[place - n - width : place - n] == steps[at - n - width : at - n]:
            n, width = n + width, width * 2
        else:
            most, width = n + width - 1, width // 2
    return n


def _places(steps: Sequence[int], step: int, before: int) -> list[int]:
    found = []
    for place in range(before - 1, -1, -1):
        if steps[place] == step:
            found.append(place)
            if len(found) == _MOST_PLACES:
                break
    return found


def _from(steps: Sequence[int], place: int, at: int) -> int:
    n = 0
    while n < min(len(steps) - at, _LONGEST) and steps[place + n] == steps[at + n]:
        n += 1
    return n
