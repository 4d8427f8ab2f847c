"""Facts that speak for or against blaming ranks, and what each weighs.

A finder looks at one candidate and yields rows of evidence. ``FACTS`` is the one table of what a
fact weighs and which facts forbid it to count. ``weighing.weigh`` decides by the rows alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from collectrace.findings import EvidenceRow

if TYPE_CHECKING:
    from collectrace.align.judging.candidate import Candidate
    from collectrace.align.judging.case import Case

Speaks = Literal["for", "against"]

ENOUGH: Final = 50
"""Weight that blames ranks."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A kind of evidence."""

    summary: str
    """One line for readers of a report: what the fact means for the ranks that it is about."""

    weight: int
    """0 to 100. A fact of 50 or more decides alone; smaller ones must add up to 50."""

    vetoed_by: tuple[str, ...] = ()
    """Names of facts "against" under which this one does not count for the same ranks."""

    speaks: Speaks = "for"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One row: a fact about some ranks."""

    fact: str
    """A key of ``FACTS``."""

    ranks: tuple[int, ...]
    """The ranks that it is about; sorted. Of a fact "against": those that it protects."""

    sites: tuple[str, ...] = ()
    """``path:line`` of the code that shows it."""

    shown_by: object = field(default=None, compare=False)
    """The typed data behind it, such as a departure: causes read it, words never decide by it."""


Find = Callable[["Case", "Candidate"], Iterator[Evidence]]
"""Looks at one candidate, and returns what it finds."""


@dataclass(frozen=True, slots=True)
class Finder:
    """A function that finds evidence, and the facts that it can find."""

    find: Find
    facts: tuple[str, ...]
    """Keys of ``FACTS``; all of them for, or all of them against."""

    @property
    def most(self) -> int:
        """What its heaviest fact weighs."""
        return max(FACTS[fact].weight for fact in self.facts)

    @property
    def speaks(self) -> Speaks:
        """Whether it finds what speaks for blame, or against."""
        return FACTS[self.facts[0]].speaks


_AGAINST: Final = 100


def _against(summary: str) -> Fact:
    return Fact(summary, _AGAINST, speaks="against")


FACTS: Final[dict[str, Fact]] = {
    # -- rows of streams, groups, stalls ----------------------------------------------------
    "old_rules": Fact("Rules that are not facts yet blame these ranks.", ENOUGH),
    # -- messages and wait circles -----------------------------------------------------------
}
"""THE table of facts, by name."""


def told(rows: Sequence[Evidence]) -> tuple[EvidenceRow, ...] | None:
    """Return evidence as a finding has it; None: there is none."""
    return tuple(map(_told, rows)) or None


def _told(row: Evidence) -> EvidenceRow:
    fact = FACTS[row.fact]
    return EvidenceRow(
        fact=row.fact,
        speaks=fact.speaks,
        ranks=row.ranks,
        weight=fact.weight,
        sites=row.sites or None,
    )
