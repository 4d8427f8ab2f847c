"""Facts that speak for or against blaming ranks, and what each weighs.

A finder looks at one candidate and yields rows of evidence. ``FACTS`` is the one table of what a
fact weighs and which facts forbid it to count. ``weighing.weigh`` decides by the rows alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

Speaks = Literal["for", "against"]


@dataclass(frozen=True, slots=True)
class Fact:
    """A kind of evidence."""

    summary: str
    """One line for readers of a report: what the fact means for the ranks that it is about."""

    weight: int
    """0 to 100. A fact of 50 or more decides alone; smaller ones must add up to 50."""

    vetoed_by: tuple[str, ...] = ()
    """Names of facts "against" under which this one does not count for the same ranks."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One row: a fact about some ranks."""

    fact: str
    """A key of ``FACTS``."""

    ranks: tuple[int, ...]
    """The ranks that it is about; sorted."""

    sites: tuple[str, ...] = ()
    """``path:line`` of the code that shows it."""

    shown_by: object = field(default=None, compare=False)
    """The typed data behind it, such as a departure: causes read it, words never decide by it."""


FACTS: Final[dict[str, Fact]] = {}
"""THE table of facts, by name."""
