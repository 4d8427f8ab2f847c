"""Conditions that are alike on all ranks at one turn of a loop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from collectrace.align.judging import intervals
from collectrace.align.judging.case import Case
from tests.support.judging import case_of
from tests.support.synthetic import Run

SOURCE = """\
for epoch, batch in enumerate(batches):
    {}
        total(batch)
"""


@pytest.mark.parametrize(
    ("condition", "is_alike"),
    [
        ("if epoch % 2:", True),
        ("if epoch % 2 == 0:", True),
        ("if (epoch + 1) % LOG_EVERY == 0:", True),
        ("if not epoch % SAVE_EVERY:", True),
        ("if epoch % len(batch) == 0:", False),
        ("if epoch % every == 0:", False),
        ("if epoch % 2 == rank:", False),
        ("if epoch % 2 == 0 and rank == 0:", False),
        ("if seen % 2 == 0:", False),
        ("if loss > 3:", False),
    ],
)
def test_by_turns(condition: str, is_alike: bool, tmp_path: Path) -> None:
    assert holds(intervals.is_by_turns, condition, 3, tmp_path) == is_alike


@pytest.mark.parametrize(
    ("condition", "is_alike"),
    [
        ("if epoch % 2 == 0 and not any_left():", True),
        ("if not epoch % VOTE_EVERY and any_left():", True),
        ("if epoch % every == 0 and any_left():", False),
        ("if epoch % 2 == rank and any_left():", False),
        ("if epoch % 2 == 0 or any_left():", False),
        ("if epoch % 2 == 0 and busy or any_left():", False),
        ("if seen % 2 == 0 and any_left():", False),
        ("if any_left() and epoch % 2 == 0:", False),
        ("if epoch % 2 == 0:", False),
    ],
)
def test_asked_by_turns(condition: str, is_alike: bool, tmp_path: Path) -> None:
    assert holds(intervals.is_asked_by_turns, condition, 2, tmp_path) == is_alike


def holds(
    rule: Callable[[Case, str, str], bool], condition: str, number: int, folder: Path
) -> bool:
    """Whether a rule holds of a condition on the way of a line of the source."""
    source = folder / "train.py"
    source.write_text(SOURCE.format(condition))
    run = Run(2)
    run.all("all_reduce", site=f"{source}:3")
    return rule(case_of(run, folder / "logs"), f"{source}:{number}", f"2 {condition}")
