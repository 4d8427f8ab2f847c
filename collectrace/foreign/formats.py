"""The foreign formats, one row each: how to recognise it, and its reader."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from collectrace.foreign import documented, flight_recorder
from collectrace.foreign.trace import Origin, Trace

HEAD: Final = documented.HEAD
"""Bytes by which a file is recognised."""


@dataclass(frozen=True, slots=True)
class Format:
    """One row."""

    tool: str
    """Its name in the report."""
    is_one: Callable[[bytes], bool]
    """Whether a file is one, by its first :data:`HEAD` bytes."""
    is_named: re.Pattern[str]
    """Names that only such files have; a file with one and other content is reported."""
    read: Callable[[bytes, Origin], Trace]
    """Raises NotReadable."""


_FLIGHT_NAME: Final = re.compile(
    r"(?:nccl_|comm_lib_)?trace_rank_?(\d{1,9})(?:\.\w+)?|.*\.flight\.(?:json|pickle|pkl)"
)
"""torch's defaults (ProcessGroupNCCL.cpp and FlightRecorder.cpp), and ``rank00000.flight.json``."""

_JSON_KEYS: Final = (
    b'"comm_lib_version"', b'"nccl_version"', b'"nccl_comm_state"', b'"pg_config"',
    b'"pg_status"', b'"record_id"', b'"collective_seq_id"', b'"entries"',
)  # fmt: skip


def _is_flight_pickle(head: bytes) -> bool:
    is_pickle = head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")
    return is_pickle and any(key in head for key in (b"entries", b"pg_config", b"pg_status"))


def _is_flight_json(head: bytes) -> bool:
    return head.lstrip()[:1] == b"{" and any(key in head for key in _JSON_KEYS)


FORMATS: Final = (
    Format(flight_recorder.TOOL, _is_flight_pickle, _FLIGHT_NAME, flight_recorder.read_pickle),
    Format(flight_recorder.TOOL, _is_flight_json, _FLIGHT_NAME, flight_recorder.read_json),
)

_RANK: Final = re.compile(r"rank[_.-]?(\d{1,9})(?!.*rank[_.-]?\d)|(\d{1,9})(?:\.[A-Za-z]\w*)*$")


def of(head: bytes) -> Format | None:
    """Return the format of a file, by its first bytes; None: no format fits."""
    if documented.of(head) is not None:
        return None
    return next((one for one in FORMATS if one.is_one(head)), None)


def named(name: str) -> Format | None:
    """Return the format that a file should have, by its name."""
    return next((one for one in FORMATS if one.is_named.fullmatch(name)), None)


def rank(name: str) -> int | None:
    """Return the rank of a file, by its name: ``nccl_trace_rank_3``, ``dump7.json``."""
    found = _RANK.search(name)
    if found is None:
        return None
    number = int(found[1] or found[2])
    return number if number < 1_000_000 else None
