"""One line whose turns bring different tensors: another order, one left out, one more."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

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


def test_who_sorts_by_a_key_may_have_one_of_its_own(tmp_path: Path) -> None:
    loop = "for name in sorted(names, key=ages.get):"
    assert "PYTHONHASHSEED" in told(tmp_path, [[3, 1], [3, 1], [3, 9]], loop=loop).cause


@pytest.mark.parametrize(
    ("before", "led"),
    [
        ("if name.grad is None: continue", True),
        ("if name.isnan().any(): continue", True),
        ("if name.startswith('stem'): continue", False),
        ("if name in FROZEN: continue", False),
        ("if name.grad is None: print(name)", False),
        ("if name.grad is None: break", False),
    ],
)
def test_what_may_have_led_past_a_turn(before: str, led: bool, tmp_path: Path) -> None:
    train = tmp_path / "train.py"
    head, tail = before.split(": ")
    train.write_text(
        f"def share():\n    for name in names:\n        {head}:\n            {tail}\n"
        "        total(name)\n"
    )
    run = Run(3)
    for rank in run:
        frames = ["/job/comm.py:4 total", f"{train}:5 share"]
        rank.record(Stack(stack=1, frames=frames))
        for size in [*SIZES * 3, 3, *([9] if rank.rank == 2 else [1])]:
            call = rank.call("all_reduce", shape=[size], site="/job/comm.py:4", stack=1)
        rank.beat(60, rank.inside(call))
    found = errors(aligned(run, tmp_path / "logs"))[0]
    assert "without the 2 between or with one more" in found.cause
    past = f"`{head}:` (train.py:3), with a continue, may have led rank 2 past a turn."
    assert (past in found.cause) == led
    assert found.fix.startswith("Let all ranks decide together at train.py:3") == led
    assert ("Or let rank 2 take part in that turn with zeros." in found.fix) == led


def test_a_library_that_made_one_of_its_calls_more(tmp_path: Path) -> None:
    """All of them come from one line of the script; and barriers have no tensors to be told."""
    run, at = Run(2), dict[str, Any](site="/job/fit.py:9")
    for rank in run:
        rank.record(Stack(stack=1, frames=["/job/fit.py:9 <module>"]))
        logs = [
            ("barrier", "lightning.log", "val/code"), ("all_reduce", "lightning.log", None),
            ("barrier", "lightning.log", "val/web"), ("all_reduce", "lightning.log", None),
        ]  # fmt: skip
        behind = [("barrier", "lightning.barrier", None)]
        behind += [("all_reduce", "ddp.backward.bucket", None)] * 2
        last = logs[0] if rank.rank == 0 else behind[0]
        for op, role, part in [*[*logs, *behind] * 3, *logs, last]:
            call = rank.call(op, role=role, part=part, stack=1, **at)
        rank.beat(60, rank.inside(call))
    found = errors(aligned(run, tmp_path))[0]
    assert (found.kind, found.suspects) == ("role_mismatch", ())
    assert (
        "Rank 0 called Lightning log of val/code at fit.py:9 where in each of the 3 equal rounds "
        "before Lightning barrier at fit.py:9 came next, and Lightning log of val/code only 3 "
        "calls later; rank 1 went on as in those. So rank 0 made one Lightning log of val/code "
        "more, or left out what comes between, or goes through them in another order."
    ) in found.cause
    assert "Make as many Lightning log of val/code calls on every rank" in found.fix
    assert "with ," not in found.cause
