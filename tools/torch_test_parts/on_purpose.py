"""What torch's tests do wrong on purpose, and the aligner finds."""

from __future__ import annotations

from typing import Final, NamedTuple


class Purpose(NamedTuple):
    kinds: frozenset[str]
    """Of the errors that are found."""
    reason: str


ON_PURPOSE: Final[dict[str, Purpose]] = {}
"""By the test's method. ``tools/torch_tests.py`` holds both ways: what it finds is listed, and what
is listed is found."""
