"""What a condition or a loop did, by the recorded values of its names."""

from __future__ import annotations

import ast
from typing import Any, Final

import pytest

from collectrace.align.code import outcomes

VALUES: Final[dict[str, Any]] = {
    "step": 7, "self.limit": 5, "none": None, "rate": 0.5,
    "rows": {"type": "list", "len": 0}, "records": {"type": "list", "len": 9},
    "loss": {"type": "Tensor", "shape": [1], "value": "nan"},
    "count": {"type": "Tensor", "shape": [1], "value": 3.0},
    "nan": {"type": "float", "value": "nan"}, "trainer": {"type": "Trainer"},
    "untyped": {"value": "nan"},
    "mode": {"type": "Mode", "value": "TRAIN"}, "name": {"type": "str", "len": 3, "hash": 7},
}  # fmt: skip


def parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("not rows", True),
        ("records", True),
        ("name", True),
        ("step % 4 == 3", True),
        ("0 < step <= self.limit", False),
        ("none is None", True),
        ("trainer is not None", True),
        ("count > 2 and step == 7", True),
        ("count.item() * 2 < rate", False),
        ("len(records) - 9", False),
        ("nan > 0", False),
        ("step == 7 or unknown", True),  # one part decides
        ("rows and unknown", False),
        ("step == 7 and unknown", None),
        ("unknown", None),
        ("loss > 0", None),  # its number is not that of a plain float
        ("trainer", None),
        ("untyped > 0", None),
        ("mode == step", None),
        ("name == 'abc'", None),
        ("step.bit_length()", None),
        ("open('x')", None),
        ("step % 0", None),
        ("10 ** 10 ** 10", None),
    ],
)
def test_whether_a_condition_was_true(test: str, expected: object) -> None:
    assert outcomes.truth(parsed(test), VALUES) is expected


@pytest.mark.parametrize(
    ("iterated", "expected"),
    [
        ("records", 9),
        ("enumerate(records)", 9),
        ("range(step)", 7),
        ("range(2, step, 2)", 3),
        ("range(len(records) - 1)", 8),
        ("zip(records, range(step))", 7),
        ("range(1, 1 << 40, step)", None),
        ("range(10 * 1000000000000000000000)", None),
        ("records.items()", None),
        ("trainer", None),
        ("step", None),
    ],
)
def test_how_many_items_a_loop_went_through(iterated: str, expected: int | None) -> None:
    assert outcomes.length(parsed(iterated), VALUES) == expected


def test_an_expression_that_is_too_deep_is_not_computed() -> None:
    tree = parsed("step")
    for _ in range(3000):
        tree = ast.UnaryOp(ast.Not(), tree)
    assert outcomes.truth(tree, VALUES) is None
