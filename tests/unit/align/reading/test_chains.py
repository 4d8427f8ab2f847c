"""Which lines called which functions, by the stacks above calls."""

from __future__ import annotations

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
