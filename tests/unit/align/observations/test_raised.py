"""Ranks that all ended with an exception: what it may come of, and where nothing is said of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from collectrace.align.alignment import align
from collectrace.findings import Finding
from tests.support.stacks import Stacks
from tests.support.synthetic import Run

SOURCE = """\
def check(tensors):
    total(len(tensors))

def replace(buffers):
    if not dead:
        return
    check(buffers)

def step():
    replace(buffers)
    check(gradients)
    check(log)

def main():
    for number in range(8):
        step()
"""
MAIN = "16 main"
BUFFERS, GRADIENTS = ("7 replace", "10 step", MAIN), ("11 step", MAIN)
LOG = ("12 step", MAIN)
USUAL = [GRADIENTS] * 6


def raised(
    folder: Path,
    ways: Mapping[int, Sequence[tuple[str, ...]]],
    *,
    finished: Sequence[int] = (),
    op: str = "all_reduce",
) -> Finding:
    """Ranks that sum a number, each time called from these lines, and then raise.

    All agree, so that there is nothing but the warning.
    """
    train = folder / "train.py"
    train.write_text(SOURCE)
    run, stacks = Run(len(ways)), Stacks()
    for rank in run:
        for way in ways[rank.rank]:
            frames = [f"{train}:{frame}" for frame in way]
            call = rank.call(op, **stacks.at(rank, f"{train}:2 check", *frames))
        rank.done(call.seq)
        if rank.rank in finished:
            rank.exit()
        else:
            rank.exit("exception", error="ValueError", message="too many", site=f"{train}:2")
    run.write(folder / "logs")
    alignment = align(folder / "logs")
    assert alignment.status == "aligned"
    [found] = [finding for finding in alignment.findings if finding.kind == "raised"]
    assert found.severity == "warning"
    return found


def test_behind_the_only_call_that_was_come_to_from_two_lines(tmp_path: Path) -> None:
    found = raised(tmp_path, {r: [*USUAL, BUFFERS if r else GRADIENTS] for r in range(3)})
    assert (
        "The last call, 7, is the only one that they made from different lines: rank 0 at "
        "train.py:11; ranks 1-2 at train.py:7." in found.cause
    )
    assert "what raised may come of that. `if not dead:` (train.py:5)" in found.cause
    assert found.fix.startswith("First see whether it comes of that. Make the call on every rank")
    assert "`if not dead:` (train.py:5)" in found.fix
    assert found.fix.endswith("If it raises all the same, fix what raised.")


@pytest.mark.parametrize(
    "ways",
    [
        pytest.param({r: [*USUAL, GRADIENTS] for r in range(3)}, id="one line"),
        pytest.param(
            {r: [*USUAL, BUFFERS if r else GRADIENTS, GRADIENTS] for r in range(3)},
            id="and one call more",
        ),
        pytest.param(
            {r: [*USUAL[:4], *[BUFFERS if r else GRADIENTS] * 3] for r in range(3)},
            id="not for the first time",
        ),
        pytest.param({r: [BUFFERS if r else GRADIENTS] for r in range(3)}, id="nothing before"),
    ],
)
def test_other_calls_are_not_suspected(
    ways: Mapping[int, Sequence[tuple[str, ...]]], tmp_path: Path
) -> None:
    found = raised(tmp_path, ways)
    assert "different lines" not in found.cause
    assert found.fix == "Fix what raised: the collectives agree."


def test_a_rank_that_was_content_with_it(tmp_path: Path) -> None:
    ways = {r: [*USUAL, BUFFERS if r else GRADIENTS] for r in range(3)}
    assert "different lines" not in raised(tmp_path, ways, finished=[2]).cause


def test_lines_between_which_nothing_leads_past(tmp_path: Path) -> None:
    """As two arms of a condition: what meets there may well be meant to."""
    found = raised(tmp_path, {r: [*USUAL, LOG if r else GRADIENTS] for r in range(3)})
    assert "different lines" not in found.cause


def test_a_barrier_combines_nothing(tmp_path: Path) -> None:
    ways = {r: [*USUAL, BUFFERS if r else GRADIENTS] for r in range(3)}
    assert "different lines" not in raised(tmp_path, ways, op="barrier").cause
