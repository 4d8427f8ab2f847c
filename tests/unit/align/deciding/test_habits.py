"""What a rank usually does after a call."""

from __future__ import annotations

import pytest

from collectrace.align.deciding.habits import find_departure
from collectrace.align.deciding.timeline import Entry
from collectrace.align.reading.evidence import StreamKey


def calls(text: str) -> list[Entry]:
    """A letter for each call: its line, and its stream."""
    return [
        Entry(n, StreamKey(letter, "cpu"), n, ("all_reduce", (f"train.py:{letter} f",)), False)
        for n, letter in enumerate(text)
    ]


@pytest.mark.parametrize(
    ("made", "first", "awaited", "expected"),
    [
        ("abcabcabb", 7, "c", (7, "c")),  # b: c usually follows
        ("abcabcac", 5, "b", (6, "b")),
        ("aabaabaaa", 5, "b", (7, "b")),  # after two of them, and not after one
        ("abcbabcbacb", 6, "c", (8, "b")),
        ("abcabcabc", 5, "c", None),
        ("abc", 0, "c", None),  # nothing is known of before
    ],
)
def test_where_it_departs(
    made: str, first: int, awaited: str, expected: tuple[int, str] | None
) -> None:
    found = find_departure(calls(made), first, StreamKey(awaited, "cpu"))
    assert (found and (found[0], found[1].key.group)) == expected


def test_what_is_new_counts_more_than_another_number_of_iterations() -> None:
    # Rows are sent two and three at a time; then a whole report is missing.
    made = calls("mrrmrrrmrmm")
    found = find_departure(made, 8, StreamKey("r", "cpu"))
    assert found is not None
    assert (found[0], found[1].key.group) == (9, "r")
