"""One line that is given tensors of several kinds, and ranks that are at different ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from collectrace.findings import Finding
from collectrace.records import Stack
from tests.support.judging import aligned, errors
from tests.support.synthetic import Run

Given = dict[str, Any]

BOXES: Given = {"dtype": "float32", "shape": [6, 4]}
LABELS: Given = {"dtype": "int64", "shape": [6]}
SCORES: Given = {"dtype": "float32", "shape": [9, 2]}
LOSS: Given = {"dtype": "float32", "shape": [1]}
COUNT: Given = {"dtype": "int64", "shape": [1]}
SHORT: Given = {"dtype": "float32", "shape": [4, 6]}
LONG: Given = {"dtype": "float32", "shape": [4, 9]}

NEXT: Given = {"shape": [1], "site": "/m.py:30", "stack": 3}
"""What comes between the turns of a loop."""


def found(
    before: Sequence[Given], usual: Given, odd: Given, folder: Path, *, odd_site: str = "/m.py:9"
) -> Finding:
    """All of three gather the same from one line; then rank 1 something else, or from elsewhere."""
    run = Run(3)
    for rank in run:
        is_odd = rank.rank == 1
        rank.record(Stack(stack=1, frames=["/m.py:9 synced", "/m.py:30 main"]))
        rank.record(Stack(stack=2, frames=[f"{odd_site} synced", "/m.py:30 main"]))
        rank.record(Stack(stack=3, frames=["/m.py:30 main"]))
        for given in before:
            rank.call("all_reduce", **{"site": "/m.py:9", "stack": 1, **given})
        site = odd_site if is_odd else "/m.py:9"
        last = rank.call("all_reduce", site=site, stack=1 + is_odd, **(odd if is_odd else usual))
        rank.beat(60, rank.inside(last))
    return errors(aligned(run, folder))[0]


TOLD = "has been called with both before, on every rank"


def test_a_rank_that_went_on_earlier(tmp_path: Path) -> None:
    told = found([BOXES, BOXES, LABELS, LABELS, NEXT, BOXES], BOXES, LABELS, tmp_path)
    assert (told.kind, told.suspects) == ("dtype_mismatch", (1,))
    assert f"{TOLD}: int64[6] behind float32[6, 4] (24 elements)." in told.cause
    assert "Here, after 1 of float32[6, 4], rank 1 went on to int64[6]" in told.cause
    assert "and ranks 0,2 to another float32[6, 4]" in told.cause
    assert "agree on their number first" in told.fix
    assert "torch.tensor" not in told.fix


def test_a_rank_that_went_on_for_longer(tmp_path: Path) -> None:
    told = found([BOXES, BOXES, LABELS, LABELS, NEXT, BOXES], LABELS, BOXES, tmp_path)
    assert "Here, after 1 of float32[6, 4], ranks 0,2 went on to int64[6]" in told.cause
    assert "and rank 1 to another float32[6, 4]" in told.cause


def test_a_rank_that_has_none_of_them(tmp_path: Path) -> None:
    told = found([SCORES, BOXES, LABELS, NEXT, SCORES], BOXES, LABELS, tmp_path)
    assert "Here rank 1 passed int64[6], ranks 0,2 float32[6, 4]." in told.cause


@pytest.mark.parametrize(
    ("before", "usual", "odd"),
    [
        ([LOSS, COUNT, NEXT, LOSS, COUNT, NEXT], LOSS, COUNT),
        ([BOXES, BOXES, NEXT, BOXES], BOXES, LABELS),
        ([BOXES, {**BOXES, "shape": [5, 4]}, NEXT, BOXES], BOXES, {**BOXES, "shape": [5, 4]}),
        ([BOXES, SCORES, LABELS, NEXT], BOXES, LABELS),
        ([SHORT, SHORT, LONG, SHORT], SHORT, LONG),
        ([BOXES, NEXT, LABELS, NEXT, BOXES, NEXT], BOXES, LABELS),
        ([SHORT, LONG, NEXT, SHORT, SHORT, NEXT, SHORT], SHORT, LONG),
    ],
    ids=[
        "a number of another type",
        "never given before",
        "fewer rows",
        "never behind it",
        "turns that are not known",
        "once in each turn",
        "padded in each turn otherwise",
    ],
)
def test_a_tensor_that_may_have_come_out_otherwise(
    before: Sequence[Given], usual: Given, odd: Given, tmp_path: Path
) -> None:
    assert TOLD not in found(before, usual, odd, tmp_path).cause


def test_sizes_that_come_alike_in_each_turn(tmp_path: Path) -> None:
    told = found([SHORT, LONG, NEXT, SHORT, LONG, NEXT, SHORT], SHORT, LONG, tmp_path)
    assert "Here, after 1 of float32[4, 6], rank 1 went on to float32[4, 9]" in told.cause


def test_lines_that_differ(tmp_path: Path) -> None:
    before = [BOXES, BOXES, LABELS, LABELS, NEXT, BOXES]
    assert TOLD not in found(before, BOXES, LABELS, tmp_path, odd_site="/m.py:12").cause
