"""The documentation of the facts that decide who is to blame."""

from __future__ import annotations

from pathlib import Path

import pytest

import collectrace
from collectrace.align.judging import catalogue
from collectrace.align.judging.evidence import FACTS
from collectrace.commands import docs


def test_the_chapter_is_that_of_the_table() -> None:
    written = Path(collectrace.__file__).parent / "docs" / "evidence.md"
    assert written.read_text() == catalogue.chapter(), "run: tools/causes --docs"


@pytest.mark.parametrize("name", FACTS)
def test_the_chapter_lists_every_fact(name: str) -> None:
    rows = [line for line in docs.read("evidence").splitlines() if line.startswith(f"| `{name}` |")]
    assert rows, "no finder finds it"
    assert all(FACTS[name].summary in row for row in rows)
