"""Conditions that are alike on all ranks at one turn of a loop."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.align.judging import intervals
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
    source = tmp_path / "train.py"
    source.write_text(SOURCE.format(condition))
    run = Run(2)
    run.all("all_reduce")
    case = case_of(run, tmp_path / "logs")
    assert intervals.is_by_turns(case, f"{source}:3", f"2 {condition}") == is_alike


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
    source = tmp_path / "train.py"
    source.write_text(SOURCE.format(condition))
    run = Run(2)
    run.all("all_reduce")
    case = case_of(run, tmp_path / "logs")
    assert intervals.is_asked_by_turns(case, f"{source}:2", f"2 {condition}") == is_alike
