"""Encode records as lines of this process's rank files, without the parts that ``omit`` names."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

from collectrace import privacy, records
from collectrace.records import Record

RecordT = TypeVar("RecordT", bound=Record)

_omitted: frozenset[str] = frozenset()
"""Words of ``privacy.OMITTABLE``; the same for all runs of the process."""


def omit(words: Collection[str]) -> None:
    """Leave these parts out of every line from now on."""
    global _omitted
    _omitted = frozenset(words)


def omitted() -> frozenset[str]:
    """Return the words of the parts that are left out."""
    return _omitted


def plain(record: RecordT) -> RecordT:
    """Return a record without the omitted parts: the record itself, or a copy."""
    return privacy.without(record, _omitted) if _omitted else record


def encode(record: Record) -> bytes:
    """Return the line of a record."""
    return records.encode(plain(record))
