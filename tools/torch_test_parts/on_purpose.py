"""What torch's tests do wrong on purpose, and the aligner finds."""

from __future__ import annotations

from fnmatch import fnmatch
from typing import Final, NamedTuple


class Purpose(NamedTuple):
    """One test."""

    suites: str
    """Pattern of their names."""
    test: str
    """Pattern of ``Class.test``."""
    kind: str
    """Of the errors that are found."""
    reason: str


ON_PURPOSE: Final[tuple[Purpose, ...]] = (
    Purpose("distributed_test, ? ranks", "*.test_barrier_timeout_full_group", "missing_call",
            "only rank 0 calls barrier, which is to time out"),
    Purpose("distributed_test, ? ranks", "*.test_monitored_barrier_gloo", "missing_call",
            "rank 1 skips the last monitored_barrier, which is to name it"),
    Purpose("distributed_test, ? ranks", "*.test_monitored_barrier_gloo_rank_0_timeout",
            "missing_call", "only rank 0 calls monitored_barrier, which is to time out"),
    Purpose("distributed_test, ? ranks", "*.test_monitored_barrier_gloo_subgroup", "missing_call",
            "rank 1 skips monitored_barrier, which is to name it"),
)  # fmt: skip
"""``tools/torch_tests.py`` holds both: what it finds is listed, and what is listed is found."""


def purpose(suite: str, test: str) -> Purpose | None:
    """The row of a test; None: it does nothing wrong."""
    rows = (row for row in ON_PURPOSE if fnmatch(suite, row.suites) and fnmatch(test, row.test))
    return next(rows, None)
