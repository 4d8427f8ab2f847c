"""The lines of this process's rank files: records as bytes, without what ``omit`` leaves out."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

from collectrace import privacy, records
from collectrace.records import Record

RecordT = TypeVar("RecordT", bound=Record)

_omitted: frozenset[str] = frozenset()
"""Words of ``privacy.OMITTABLE``: as the libraries of ``sites``, the same for all runs."""


def omit(words: Collection[str]) -> None:
    """Leave these parts out of every line from now on."""
    global _omitted
    _omitted = frozenset(words)


def omitted() -> frozenset[str]:
    """Return what is left out."""
    return _omitted


def plain(record: RecordT) -> RecordT:
    """Return a record without what is left out: itself, or a copy."""
    return privacy.without(record, _omitted) if _omitted else record


def encode(record: Record) -> bytes:
    """Return the line of a record."""
    return records.encode(plain(record))
