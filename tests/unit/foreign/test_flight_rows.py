"""Rows known by their bytes are those that Python's own unpickler builds."""

from __future__ import annotations

import pickle
import random
from typing import Any

import pytest

from collectrace.foreign import flight_rows
from tests.support.flight_cases import CASES, FlightCase
from tests.support.flight_rings import as_torch
from tools.bench_flight import Pickler, dump

OWN = {*flight_rows._NUMBERS, *flight_rows._IGNORED}


def check(data: bytes) -> int:
    """Compare with what pickle says; how many rows share their entry with another."""
    found = flight_rows.read(data)
    assert found is not None
    head, rows = found
    whole: dict[str, Any] = pickle.loads(data)
    entries = whole.pop("entries")
    assert head == whole
    wanted = flight_rows.of_entries(entries)
    assert [(r.seq, r.created, r.completed) for r in rows] == [
        (r.seq, r.created, r.completed) for r in wanted
    ]
    assert all(a.started in (b.started, None) for a, b in zip(rows, wanted, strict=True))
    assert all(a.started == b.started for a, b in zip(rows, wanted, strict=True) if not b.completed)
    for row, entry in zip(rows, entries, strict=True):
        shared = {k: v for k, v in row.entry.items() if k not in OWN}
        assert shared == {k: v for k, v in entry.items() if k not in OWN}
    return len(rows) - len({id(row.entry) for row in rows})


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_rows_of_every_case(case: FlightCase) -> None:
    for ring in case.build():
        check(as_torch(ring))


def test_most_rows_of_a_loop_share_what_is_alike() -> None:
    assert check(Pickler().dump(dump(1, 4, 500, 8))) > 400


def test_numbers_that_look_like_opcodes() -> None:
    """Bytes of lines, sizes and times that are those of keys, marks and ends."""
    chosen = random.Random(7)
    whole = dump(0, 2, 300, 6)
    for entry in whole["entries"]:
        odd = [
            chosen.choice((0x68, 0x75, 0x7D, 0x4B, 0x65, 0x8A, 0x2E, 0x6875, 0x757D)) for _ in "ab"
        ]
        entry["input_sizes"] = [odd]
        entry["timeout_ms"] = chosen.choice((0x75, 0x7568, 600_000))
        entry["pg_id"] = chosen.choice((0x68, 0x75))
    assert check(Pickler().dump(whole)) > 0


def unpickles(data: bytes) -> bool:
    try:
        pickle.loads(data)
    except (ValueError, pickle.UnpicklingError):
        return False
    return True


def test_damage_never_gets_past() -> None:
    """A dump with any byte changed is read as pickle reads it, or not at all."""
    from collectrace.foreign.errors import NotReadable

    data = Pickler().dump(dump(0, 2, 40, 3))
    chosen = random.Random(11)
    read = 0
    for _ in range(600):
        at = chosen.randrange(len(data))
        changed = data[:at] + bytes([chosen.randrange(256)]) + data[at + 1 :]
        try:
            found = flight_rows.read(changed)
        except NotReadable:
            continue
        if found is not None and unpickles(changed):
            check(changed)
            read += 1
    assert 50 < read < 600
