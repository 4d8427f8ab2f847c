"""Which statements run a backward(), and nothing else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from collectrace.align.causes import backwards


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("loss.backward()", True),
        ("loss.backward()  # of this step", True),
        ("pipeline.backward(*pipeline.forward(batch))", False),
        ("model(batch).sum().backward()", False),
        ("loss.backward(gradient)", False),
    ],
)
def test_whether_a_line_calls_backward_alone(statement: str, expected: bool) -> None:
    code = SimpleNamespace(line=lambda _: statement)
    assert backwards.is_alone(cast(Any, SimpleNamespace(code=code)), "/a.py:3 main") is expected
