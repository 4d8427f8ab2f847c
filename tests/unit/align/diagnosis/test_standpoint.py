"""Stacks of two ranks: what they share on the outside, and where they part."""

from __future__ import annotations

import pytest

from collectrace.align.diagnosis.standpoint import outermost_apart, shared

TRAIN = ("loss.py:9 f", "train.py:5 step", "train.py:1 main")
EVAL = ("loss.py:9 f", "train.py:7 check", "train.py:1 main")
OTHER = ("other.py:1 main",)


@pytest.mark.parametrize(
    ("one", "two", "count", "apart"),
    [
        pytest.param(TRAIN, EVAL, 1, ("train.py:5 step", "train.py:7 check"), id="in the middle"),
        pytest.param(TRAIN, OTHER, 0, ("train.py:1 main", "other.py:1 main"), id="outermost"),
        pytest.param(TRAIN, TRAIN, 3, ("", ""), id="nowhere"),
        pytest.param(TRAIN, TRAIN[1:], 2, ("", ""), id="one goes further in"),
        pytest.param(TRAIN, (), 0, ("", ""), id="one is not known"),
    ],
)
def test_where_two_stacks_part(
    one: tuple[str, ...], two: tuple[str, ...], count: int, apart: tuple[str, str]
) -> None:
    assert shared(one, two) == shared(two, one) == count
    assert outermost_apart(one, two) == apart
    assert outermost_apart(two, one) == apart[::-1]
