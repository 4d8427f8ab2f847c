"""The documentation of the facts that decide who is to blame."""

from __future__ import annotations

from pathlib import Path

import collectrace
from collectrace.align.judging import catalogue
from collectrace.align.judging.evidence import FACTS
from collectrace.commands import docs


def test_the_chapter_is_that_of_the_table() -> None:
    written = Path(collectrace.__file__).parent / "docs" / "evidence.md"
    assert written.read_text() == catalogue.chapter(), "run: tools/causes --docs"


def test_the_chapter_lists_every_fact() -> None:
    lines = docs.read("evidence").splitlines()
    for name, fact in FACTS.items():
        rows = [line for line in lines if line.startswith(f"| `{name}` |")]
        assert rows, f"no finder finds {name}"
        assert all(fact.summary in row for row in rows), name
