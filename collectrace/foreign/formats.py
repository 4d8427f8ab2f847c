"""The foreign formats: how to recognise them, and their readers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from collectrace.foreign import documented, flight_recorder
from collectrace.foreign.trace import Origin, Trace

HEAD: Final = documented.HEAD
"""Bytes by which a file is recognised."""


Reader = Callable[[bytes, Origin], Trace]
"""Reads a file; raises NotReadable."""

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


_RANK: Final = re.compile(r"rank[_.-]?(\d{1,9})(?!.*rank[_.-]?\d)|(\d{1,9})(?:\.[A-Za-z]\w*)*$")


def of(head: bytes) -> Reader | None:
    """Return the reader of a file, by its first :data:`HEAD` bytes; None: no format fits."""
    if documented.of(head) is not None:
        return None
    if _is_flight_pickle(head):
        return flight_recorder.read_pickle
    return flight_recorder.read_json if _is_flight_json(head) else None


def is_named(name: str) -> bool:
    """Return whether only a dump has such a name; one with other content is reported."""
    return _FLIGHT_NAME.fullmatch(name) is not None


def rank(name: str) -> int | None:
    """Return the rank of a file, by its name: ``nccl_trace_rank_3``, ``dump7.json``."""
    found = _RANK.search(name)
    if found is None:
        return None
    number = int(found[1] or found[2])
    return number if number < 1_000_000 else None
