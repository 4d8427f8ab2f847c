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

HEAD: Final = 4096
"""Bytes by which a file is recognised."""


@dataclass(frozen=True, slots=True)
class Documented:
    """One row, like that of a format that is read, but without a reader."""

    tool: str
    """Its name in messages."""
    is_one: Callable[[bytes], bool]
    """Whether a file is one, by its first 4096 bytes."""
    advice: str
    """A sentence for a person who wants it aligned."""


_INSPECTOR: Final = re.compile(rb'\s*\{\s*"header"\s*:\s*\{\s*"id"\s*:\s*"0x')
_CLOG: Final = re.compile(rb"V\|\d{1,4}\|base_timestamp=\d+\.\d+\r?\n")

DOCUMENTED: Final = (
    # NVIDIA/nccl v2.30.7-1, src/ras/client_support.cc
    Documented("NCCL RAS", ras.is_one, "Give it to: python -m collectrace doctor"),
    # NVIDIA/nccl v2.30.7-1, plugins/profiler/inspector/inspector_json.cc, format v4.0
    Documented(
        "NCCL Inspector",
        lambda head: _INSPECTOR.match(head) is not None and b'"rec_mechanism"' in head,
        "collectrace cannot align it, because it lacks what did not complete, dtypes, reduce ops, "
        "roots and lines.",
    ),
    # meta-pytorch/torchcomms, comms/torchcomms/hooks/clog/ClogHook.cpp, version 1
    Documented(
        "torchcomms' collective log",
        lambda head: _CLOG.match(head) is not None,
        "collectrace cannot align it, because it lacks lines, and which ranks of the job a "
        "communicator has.",
    ),
)


def of(head: bytes) -> Documented | None:
    """Return the row of a file, by its first bytes; None: no row fits."""
    return next((one for one in DOCUMENTED if one.is_one(head)), None)
