"""Which lines called which functions, by the stacks above calls."""

from __future__ import annotations

import pytest

from collectrace.align.reading import chains

MEAN = ("comm.py", "mean")
CLIP = ("train.py", "clip")


def test_callers_and_lines_of_each_function() -> None:
    found = chains.of([
        ("comm.py:4 mean", "train.py:9 clip", "train.py:20 <module>"),
        ("comm.py:4 mean", "train.py:10 clip", "train.py:20 <module>"),
        ("comm.py:4 mean", "train.py:21 <module>"),
    ])  # fmt: skip
    assert found.callers == {
        MEAN: {"train.py:9", "train.py:10", "train.py:21"}, CLIP: {"train.py:20"},
    }  # fmt: skip
    assert found.lines == {MEAN: {"comm.py:4"}, CLIP: {"train.py:9", "train.py:10"}}


def test_one_name_in_two_files_is_two_functions() -> None:
    found = chains.of([("a.py:1 step", "m.py:1 <module>"), ("b.py:1 step", "m.py:2 <module>")])
    assert found.callers == {("a.py", "step"): {"m.py:1"}, ("b.py", "step"): {"m.py:2"}}


def test_a_line_and_a_library_are_no_frames() -> None:
    """Where no stack was recorded, they stand in its place."""
    assert chains.of([("train.py:4", "lib/metrics.py:9"), ("", "")]) == chains.Chains()


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
    assert chains.shared(one, two) == chains.shared(two, one) == count
    assert chains.outermost_apart(one, two) == apart
    assert chains.outermost_apart(two, one) == apart[::-1]
