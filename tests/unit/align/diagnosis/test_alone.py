"""Who alone was under a condition: said where nobody can have come through it without the call."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.lone_barrier import lone_barrier


@pytest.mark.parametrize(
    ("lines", "is_known"),
    [
        pytest.param((6,), True, id="right above"),
        pytest.param((10,), False, id="another way out between"),
        pytest.param((2, 12), False, id="a method, which may be another"),
        pytest.param((14,), False, id="the line decides as well"),
        pytest.param((16,), False, id="by another name"),
        pytest.param((2, 18), True, id="for one rank"),
    ],
)
def test_who_alone_was_under_a_condition(
    lines: tuple[int, ...], *, is_known: bool, tmp_path: Path
) -> None:
    found = lone_barrier(tmp_path, lines)
    assert found.suspects == (0,)
    assert ("Only rank 0 was under `if " in found.cause) is is_known
    assert ("The barrier of rank 0 stands under" in found.cause) is not is_known
    assert ("nothing on the way to it" in found.fix) is not is_known
