"""What may leave a call out of a round: handlers and conditions apart."""

from __future__ import annotations

import pytest

from collectrace.align.judging import choices


@pytest.mark.parametrize("way", ["7 continue except OSError:", "7 pass except:"])
def test_a_way_by_an_exception_is_a_handler(way: str) -> None:
    assert choices.is_handler(way)


@pytest.mark.parametrize(
    "line",
    [
        "7 except:",
        "7 except OSError:",
        "7 finally:",
        "7 continue if except_last:",
        "7 continue",
        "",
    ],
)
def test_a_condition_around_a_call_is_none(line: str) -> None:
    assert not choices.is_handler(line)
