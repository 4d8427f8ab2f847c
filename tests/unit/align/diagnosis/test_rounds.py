"""One line whose turns bring different tensors: another order, one left out, one more."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from collectrace.findings import Finding
from collectrace.records import Stack
from tests.support.judging import aligned, errors
from tests.support.synthetic import Run

LOOP = "for name in names:"

SIZES = [3, 1, 6, 9]
"""Of the turns of a round."""


def told(
    folder: Path,
    ends: Sequence[Sequence[int]],
    *,
    count: int = 0,
    loop: str = LOOP,
    batches: bool = False,
    steps: bool = False,
) -> Finding:
    """Ranks that reduce tensors of SIZES ``count`` times, and then of sizes of their own each.

    ``batches``: a DataLoader gives one before each call. ``steps``: each call is of its own step.
    """
    train = folder / "train.py"
    train.write_text(f"def share():\n    {loop}\n        total(name)\n")
    run = Run(len(ends))
    for rank, end in zip(run, ends, strict=True):
        frames = ["/job/comm.py:4 total", f"{train}:3 share"]
        rank.record(Stack(stack=1, frames=frames))
        for n, size in enumerate([*SIZES * count, *end]):
            if batches:
                rank.batch(n + 1)
            step = n if steps else None
            call = rank.call(
                "all_reduce", shape=[size], site="/job/comm.py:4", stack=1, iteration=step
            )
        rank.beat(60, rank.inside(call))
    return errors(aligned(run, folder / "logs"))[0]


def test_a_turn_that_came_later_in_the_rounds_before(tmp_path: Path) -> None:
    found = told(tmp_path, [[3, 1], [3, 1], [3, 9]], count=3)
    assert found.kind == "shape_mismatch"
    assert found.suspects == (2,)
    assert (
        "Rank 2 called all_reduce at comm.py:4 in total(), called at train.py:3 in share(), with "
        "float32[9], "
        "as it had 2 calls later in each of the 3 equal rounds before; ranks 0-1 went on with "
        "float32[1], as always." in found.cause
    )
    assert "They are turns of `for name in names:` (train.py:2): rank 2 comes" in found.cause
    assert "without the 2 between or with one more" in found.cause
    assert "in one order on every rank" in found.fix
    assert "pad" not in found.fix


def test_a_size_of_no_turn_is_not_told_to_be_one(tmp_path: Path) -> None:
    found = told(tmp_path, [[3, 1], [3, 1], [3, 7]], count=3)
    assert "later in each of" not in found.cause
    assert "whose turns bring different tensors on every rank" in found.cause


def test_without_a_round_the_turn_before_tells_that_sizes_differ(tmp_path: Path) -> None:
    found = told(tmp_path, [[3, 1], [3, 1], [3, 9]])
    assert (
        "whose turns bring different tensors on every rank: the one before, call 1, float32[3]."
        in found.cause
    )
    assert "or they are at the same turn, and its tensor differs" in found.cause
    assert "one size and dtype" in found.fix


@pytest.mark.parametrize(
    ("ends", "loop"),
    [
        ([[1, 1], [1, 1], [1, 9]], LOOP),  # so far all turns brought one size
        ([[1], [1], [9]], LOOP),  # the first turn
        ([[3, 1], [3, 1], [3, 9]], "for name in range(n):"),
        ([[3, 1], [3, 1], [3, 9]], "while names:"),
        ([[3, 1], [3, 1], [3, 9]], "if names:"),
    ],
)
def test_otherwise_a_size_that_differs_is_one_that_is_wrong(
    ends: list[list[int]], loop: str, tmp_path: Path
) -> None:
    found = told(tmp_path, ends, loop=loop)
    assert "turns" not in found.cause
    assert "tensors of different sizes" in found.cause


@pytest.mark.parametrize("what", ["batches", "steps"])
def test_batches_and_steps_are_no_turns(what: str, tmp_path: Path) -> None:
    ends = [[3, 1], [3, 1], [3, 9]]
    found = told(tmp_path, ends, batches=what == "batches", steps=what == "steps")
    assert "turns" not in found.cause


def test_who_sorts_has_one_order(tmp_path: Path) -> None:
    found = told(tmp_path, [[3, 1], [3, 1], [3, 9]], loop="for name in sorted(names):")
    assert "whose turns" in found.cause
    assert "PYTHONHASHSEED" not in found.cause
