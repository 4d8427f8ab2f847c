"""Formats of other tools that cannot be converted to rank files, and why not.

One row each, recognised like the formats that are read. ``collectrace doctor`` reads NCCL RAS;
nothing reads the others yet. Check these rows first: JSON of RAS and of a Flight Recorder both name
``nccl_version``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from collectrace import ras
from collectrace.ras import verdict

HEAD: Final = 4096
"""Bytes by which a file is recognised."""


@dataclass(frozen=True, slots=True)
class Documented:
    """One row, like that of a format that is read, but without a reader."""

    name: str
    tool: str
    """Its name in messages."""
    is_one: Callable[[bytes], bool]
    """Whether a file is one, by its first 4096 bytes."""
    is_named: re.Pattern[str]
    """Names that only such files have."""
    adds: str
    lacks: str
    """What it lacks, so that it cannot become a rank file."""
    source: str
    """The source of its fields, and the version that was read."""
    instead: str = ""
    """What to do with such a file."""

    @property
    def advice(self) -> str:
        """Return a sentence for a person who wants it aligned."""
        return self.instead or f"collectrace cannot align it, because it lacks {self.lacks}."


_INSPECTOR: Final = re.compile(rb'\s*\{\s*"header"\s*:\s*\{\s*"id"\s*:\s*"0x')
_CLOG: Final = re.compile(rb"V\|\d{1,4}\|base_timestamp=\d+\.\d+\r?\n")

DOCUMENTED: Final = (
    Documented(
        name="nccl-ras",
        tool="NCCL RAS",
        is_one=ras.is_one,
        is_named=re.compile(r".*\.ras\.(?:txt|json)"),
        adds=verdict.ADDS,
        lacks=verdict.LACKS,
        source="NVIDIA/nccl v2.30.7-1, src/ras/client_support.cc",
        instead="Give it to: python -m collectrace doctor",
    ),
    Documented(
        name="nccl-inspector",
        tool="NCCL Inspector",
        is_one=lambda head: _INSPECTOR.match(head) is not None and b'"rec_mechanism"' in head,
        # inspector.cc: "<host>-pid<pid>.log"
        is_named=re.compile(r".+-pid\d{1,10}\.log"),
        adds="of each completed collective its size in bytes, duration and bandwidth",
        lacks="what did not complete, dtypes, reduce ops, roots and lines",
        source="NVIDIA/nccl v2.30.7-1, plugins/profiler/inspector/inspector_json.cc, format v4.0",
    ),
    Documented(
        name="torchcomms-clog",
        tool="torchcomms' collective log",
        is_one=lambda head: _CLOG.match(head) is not None,
        is_named=re.compile(r".+\.clog"),
        adds="every collective in the order of its issue, with counts and dtype; asked for, when "
        "it began, ended and was waited for",
        lacks="lines, and which ranks of the job a communicator has",
        source="meta-pytorch/torchcomms, comms/torchcomms/hooks/clog/ClogHook.cpp, version 1",
    ),
)


def of(head: bytes) -> Documented | None:
    """Return the row of a file, by its first bytes; None: no row fits."""
    return next((one for one in DOCUMENTED if one.is_one(head)), None)
