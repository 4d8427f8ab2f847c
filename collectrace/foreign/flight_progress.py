"""Find the progress of a ring's streams and channels, and what its rank was in at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from collectrace.dumps import MAIN
from collectrace.foreign.flight_dump import GroupStatus, number
from collectrace.foreign.flight_rows import Row
from collectrace.records import Activity, Call


@dataclass(slots=True)
class Progress:
    """The progress of a stream or channel, by the states of its calls in order."""

    done: int = 0
    """Every call up to this number has completed, of those in the ring."""
    front: tuple[int, int, Row, Call] | None = None
    """The first call that has not: when it was issued, its number, row and form."""


def counting_collectives(
    rows: Sequence[Row], status: Mapping[str, GroupStatus]
) -> dict[str, GroupStatus]:
    """Return the statuses that count collectives alone, as the numbers of entries do.

    gloo's status counts messages, too, as dumps of torch 2.13 show.
    """
    latest: dict[str, int] = {}
    for row in reversed(rows):
        if len(latest) == len(status):
            break
        if (group := str(row.entry.get("pg_id"))) in status:
            latest.setdefault(group, number(row.seq) or 0)
    return {group: one for group, one in status.items() if one.enqueued <= latest.get(group, 0)}


def is_done(row: Row, call: Call, seq: int, status: GroupStatus | None) -> bool:
    """Return whether a call has completed, as far as the host has noticed."""
    if (number(row.completed) or 0) > 0 or row.entry.get("state") == "completed":
        return True
    # gloo counts a call before it retires it, in another thread: a dump may be made between.
    if status is not None and call.peer is None and 0 < seq <= status.completed:
        return True
    # A call that timed out is retired, too. gloo has no events, and retires what is over.
    return row.entry.get("retired") is True and call.device == "cpu"


def activity(t: int, seq: int, row: Row, call: Call) -> Activity:
    """Return the activity of a pending call: of its device, or with gloo of the waiting host."""
    on_cpu = call.device == "cpu"
    return Activity(
        thread=MAIN if on_cpu else call.device, what="call" if on_cpu else "device", since=t,
        group=call.group, device=call.device, seq=seq, op=call.op, peer=call.peer, site=call.site,
        started=None if on_cpu else _has_started(row),
    )  # fmt: skip


def _has_started(row: Row) -> bool:
    return row.entry.get("state") == "started" or (number(row.started) or 0) > 0
