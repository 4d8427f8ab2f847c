"""Parse a Flight Recorder dump into typed, checked parts.

The format is that of torch's ``torch/csrc/distributed/c10d/FlightRecorder.hpp`` and
``FlightRecorderDetail.hpp``, before torch 2.7 ``TraceUtils.h``. Its versions, read from sources of
torch and of the backends that took it over:

======= ============== ============================================================================
dump    torch          what came
======= ============== ============================================================================
1.1     2.2            ``pg_id``, ``seq_id``, sizes, state, frames; no dtypes, no groups
1.4     2.3            ``record_id``, ``op_id``; ``pg_config`` by id: a list of ranks
2.2     2.4            ``collective_seq_id`` and ``p2p_seq_id`` for ``seq_id``, ``process_group``,
                       dtypes, ``timeout_ms``, ``is_p2p``; ``pg_config`` by name, with description
2.3-2.9 2.5 to 2.8     ``pg_status``; from 2.4 on JSON; threads, the version of NCCL
2.10    2.9 to 2.15    ``comm_lib_version`` for that of NCCL; gloo and other backends record, too
======= ============== ============================================================================

So the content of a dump decides, not its version. Numbers may be text: the analyser's own tests
write them so. JSON holds 0 where no time is known, and no frames.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from collectrace.foreign.errors import NotReadable
from collectrace.foreign.flight_rows import Row, of_entries

_MOST_ENTRIES: Final = 5_000_000
_MOST_RANKS: Final = 1_000_000
_LONGEST_NAME: Final = 1000
_NUMBER: Final = re.compile(r"-?\d{1,18}")


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """A process group that the rank is in."""

    name: str
    description: str
    ranks: tuple[int, ...]


class GroupStatus(NamedTuple):
    """The progress of a group, by its own count; -1: nothing so far, or not known."""

    enqueued: int
    started: int
    completed: int


@dataclass(frozen=True, slots=True)
class FlightDump:
    """One rank's dump."""

    version: str
    library: str
    """Version of the communication library; empty: not known."""
    groups: Mapping[str, GroupConfig] = field(default_factory=dict)
    """Groups by name; torch 2.13 lists none of gloo's."""
    status: Mapping[str, GroupStatus] = field(default_factory=dict)
    """By ``pg_id``."""
    rows: Sequence[Row] = ()
    """The raw entries; each is checked when it is read."""


def parse(data: Any, rows: Sequence[Row] | None = None) -> FlightDump:
    """Parse everything except the entries; ``rows``: the entries, if they have been read.

    Raises:
        NotReadable: it is not a dump, or a part is invalid.

    """
    if not isinstance(data, dict):
        raise NotReadable(f"holds {_article(data)}; a Flight Recorder dump holds a dict")
    if rows is not None:
        data = {**data, "entries": []}
    known = {"entries", "pg_config", "pg_status", "version"} & data.keys()
    if "entries" not in known and len(known) < 2:
        raise NotReadable("is not a Flight Recorder dump: it has no entries, pg_config or version")
    entries = data.get("entries", [])
    if not isinstance(entries, list):
        raise NotReadable(f"has {_article(entries)} for its entries; a dump has a list")
    if len(entries) > _MOST_ENTRIES:
        raise NotReadable(f"has more than {_MOST_ENTRIES:,} entries")
    if not all(entry.__class__ is dict for entry in entries):
        odd = next(entry for entry in entries if entry.__class__ is not dict)
        raise NotReadable(f"has {_article(odd)} among its entries; a dump has dicts")
    return FlightDump(
        version=_text(data.get("version")),
        library=_text(data.get("comm_lib_version")) or _text(data.get("nccl_version")),
        groups={group.name: group for group in _groups(data.get("pg_config"))},
        status=dict(_statuses(data.get("pg_status"))),
        rows=of_entries(entries) if rows is None else rows,
    )


def _article(value: Any) -> str:
    name = type(value).__name__
    return "nothing" if value is None else f"an {name}" if name[0] in "aeiou" else f"a {name}"


def _text(value: Any) -> str:
    return value[:_LONGEST_NAME] if isinstance(value, str) else ""


def number(value: Any) -> int | None:
    """Return a whole number, given as a number or text; None: it is not one."""
    if value.__class__ is int:
        return value if abs(value) < 1 << 62 else None
    if value.__class__ is str and _NUMBER.fullmatch(value):
        return int(value)
    return None


def _groups(config: Any) -> Iterator[GroupConfig]:
    if config is None:
        return
    if not isinstance(config, dict):
        raise NotReadable(f"has {_article(config)} for its pg_config; a dump has a dict")
    for key, value in config.items():
        if isinstance(value, dict):
            name = value.get("name", key)
            description, ranks = _text(value.get("desc")), _ranks(value.get("ranks"))
        else:
            name, description, ranks = key, "", _ranks(value)
        if ranks and isinstance(name, str | int):
            yield GroupConfig(
                str(name)[:_LONGEST_NAME], "" if description == "undefined" else description, ranks
            )


def _ranks(value: Any) -> tuple[int, ...]:
    """``"[0, 1]"`` or ``[0, 1]``; empty where it is neither."""
    if isinstance(value, str):
        # FlightRecorderDetail.hpp, ranks_str
        value = re.findall(r"\d{1,9}", value[: 12 * _MOST_RANKS])
    if not isinstance(value, list | tuple):
        return ()
    found = [number(one) for one in value[:_MOST_RANKS]]
    ranks = [one for one in found if one is not None and 0 <= one < _MOST_RANKS]
    return tuple(dict.fromkeys(ranks)) if len(ranks) == len(found) else ()


def _statuses(status: Any) -> Iterator[tuple[str, GroupStatus]]:
    if not isinstance(status, dict):
        return
    for key, value in status.items():
        if isinstance(value, dict):
            found = (
                number(value.get(f"last_{what}_collective"))
                for what in ("enqueued", "started", "completed")
            )
            yield str(key), GroupStatus(*(-1 if one is None else one for one in found))
