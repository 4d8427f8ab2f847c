"""The round that a rank repeats."""

from __future__ import annotations

import pytest

from collectrace.align.matching import habit


@pytest.mark.parametrize(
    ("steps", "at", "place"),
    [
        ("abcabc", 4, 1),
        ("aabaab", 4, 1),  # not 3: two in a row are no round
        ("abcd", 3, None),  # never made before
        ("abcabx", 5, None),
    ],
)
def test_the_place_that_a_step_repeats(steps: str, at: int, place: int | None) -> None:
    assert habit.earlier([*map(ord, steps)], at) == place


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ("abcabc", "a"),
        ("aabaab", "a"),
        ("aabaabaab", "a"),
        ("abcabca", "b"),
        ("abca", None),  # one round and a step are no habit
        ("abcd", None),
        ("", None),
    ],
)
def test_the_step_that_two_rounds_lead_to(steps: str, expected: str | None) -> None:
    numbers = [*map(ord, steps)]
    place = habit.expected([*numbers, ord("?")], len(numbers))
    assert (None if place is None else steps[place]) == expected
