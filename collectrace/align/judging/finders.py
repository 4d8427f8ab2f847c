"""All finders of evidence, by what they look at: one table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from collectrace.align.judging.candidate import IncompleteRow, Source
from collectrace.align.judging.evidence import Finder
from collectrace.align.judging.old_rules import by_old_rules
from collectrace.align.matching.comparison import ChannelIssue, Divergence
from collectrace.align.reading.evidence import GroupConflict

OLD: Final = (Finder(by_old_rules, ("old_rules",)),)

ROWS: Final[tuple[Finder, ...]] = OLD
GROUPS: Final[tuple[Finder, ...]] = OLD
STALLS: Final[tuple[Finder, ...]] = OLD

MESSAGES: Final[tuple[Finder, ...]] = OLD
CIRCLES: Final[tuple[Finder, ...]] = OLD


def of(source: Source) -> tuple[Finder, ...]:
    """Return the finders that are asked about a candidate, by what disagrees."""
    return _BY_SOURCE[type(source)]


_BY_SOURCE: Final[Mapping[type, tuple[Finder, ...]]] = {
    Divergence: ROWS,
    GroupConflict: GROUPS,
    IncompleteRow: STALLS,
    ChannelIssue: MESSAGES,
    tuple: CIRCLES,
}
