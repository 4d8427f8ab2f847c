"""Loops by their lines: what they go by."""

from __future__ import annotations

import pytest

from collectrace.align.diagnosis.loop_lines import LoopLine, has_own_order


@pytest.mark.parametrize(
    ("text", "is_counted"),
    [
        ("for epoch in range(EPOCHS):", True),
        ("for _ in trange(start, stop):", True),
        ("for n in itertools.count(begin):", True),
        ("while not converged:", True),
        ("for step in range(len(batches)):", False),
        ("for batch in loader:", False),
        ("for name in ranges(3):", False),
        ("for x in meanwhile:", False),
    ],
)
def test_what_goes_by_a_count_is_no_data(text: str, is_counted: bool) -> None:
    assert LoopLine("train.py:3 fit", f"3     {text}").is_counted is is_counted


@pytest.mark.parametrize(
    ("text", "has_order"),
    [
        ("for name in names:", False),
        ("for key, value in metrics.items():", False),
        ("for name in sorted(names):", True),
        ("for step, batch in enumerate(train_loader):", True),
        ("for batch in self.batches:", True),
        ("for p in model.parameters():", True),
    ],
)
def test_what_comes_in_one_order_on_every_rank(text: str, has_order: bool) -> None:
    assert has_own_order(f"3     {text}") is has_order
