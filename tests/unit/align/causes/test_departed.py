"""The facts that causes of wait cycles read are facts of the table."""

from __future__ import annotations

from collectrace.align.causes import departed
from collectrace.align.judging.evidence import FACTS


def test_facts_that_are_read_exist() -> None:
    assert FACTS.keys() >= departed.FACTS_READ
