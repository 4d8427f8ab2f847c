"""Find when a Flight Recorder dump was made, which no field records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from collectrace.foreign.flight_dump import GroupStatus, number
from collectrace.foreign.flight_rows import Row

GRACE: Final = 120_000_000_000
"""ns that are allowed after a timeout, for the watchdog and the dump."""

_LATEST: Final = 2.0
"""Timeouts after a call that its dump may have been written; more, and the file is a copy."""

_MOST_UNNOTICED: Final = 2_000
"""Calls among which those are looked for that the watchdog has not noticed: it looks often."""


def made(rows: Sequence[Row], status: Mapping[str, GroupStatus], written: int | None) -> int | None:
    """Return when a dump was made, ns since 1970; None: nothing shows it.

    Its entries show it best. torch writes dumps when a call has timed out, or on request. A file
    that was ``written`` much later than that is a copy.
    """
    if not rows:
        return None
    created = number(rows[-1].created) or 0
    seen = _noticed(rows[-_MOST_UNNOTICED:], status)
    if seen is not None and seen >= created:
        return seen
    if written is None:
        return None
    timeout = (number(rows[-1].entry.get("timeout_ms")) or 0) * 1_000_000
    return written if 0 <= written - created <= _LATEST * timeout + GRACE else None


def _noticed(rows: Sequence[Row], status: Mapping[str, GroupStatus]) -> int | None:
    """Return when the dump was made, ns since 1970, by calls that the watchdog had not noticed.

    While torch writes a dump, it queries the device about each call that is not retired. It notes
    the time in the copy that it writes (``update_state`` in ``dump_entries``,
    FlightRecorderDetail.hpp, torch 2.13). The watchdog retires calls that have completed, and
    counts calls that have started. So a call that is completed and not retired, or started and not
    counted, has the time of the dump. None: there is no such call.
    """
    found = 0
    for row in rows:
        if row.entry.get("retired") is not False:
            continue
        completed, started = number(row.completed) or 0, number(row.started) or 0
        counted = status.get(str(row.entry.get("pg_id")))
        if completed > 0:
            found = max(found, completed)
        elif started > 0 and counted is not None and 0 <= counted.started < (number(row.seq) or 0):
            found = max(found, started)
    return found or None
