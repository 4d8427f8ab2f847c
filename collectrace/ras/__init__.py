"""Read NCCL RAS, which reports on the processes of a running job, and put it into words.

RAS is part of NCCL since 2.24. A thread in every process listens on ``localhost:28028``, or where
``NCCL_RAS_ADDR`` says, and answers with a report on the whole job: as text, since NCCL 2.28.7 as
JSON, too. A report shows how many collectives each rank of a communicator has launched, per op
since 2.26 (without messages and all-to-alls), which processes do not answer, and which count as
dead. It does not show the order of the calls, their lines, or the culprit.

Source of every fact in this package: NVIDIA/nccl, ``src/ras/client_support.cc`` (what is printed),
``src/ras/client.cc`` (how it is asked for), ``src/ras/collectives.cc`` and
``src/plugin/profiler.cc`` (what is counted), at v2.24.3-1, v2.26.2-1, v2.28.7-1 and v2.30.7-1.
"""

from __future__ import annotations

from typing import Final

from collectrace.ras import as_json, as_text
from collectrace.ras.report import NotReadable, Report

MOST_BYTES: Final = 64 << 20
"""Most bytes of a report: a communicator of ten thousand ranks needs 5 MB of JSON."""

HEAD: Final = 4096
"""Bytes by which a report is recognised."""


def is_one(head: bytes) -> bool:
    """Return whether a file is a report, by its first :data:`HEAD` bytes."""
    return as_json.is_one(head) or as_text.is_one(head)


def read(data: bytes) -> Report:
    """Read a saved report in either form.

    Raises:
        NotReadable: it is not a report, or nothing in it could be read.

    """
    if len(data) > MOST_BYTES:
        raise NotReadable(f"is larger than any NCCL RAS report ({MOST_BYTES >> 20} MiB)")
    if as_json.is_one(data[:HEAD]):
        return as_json.read(data)
    if as_text.is_one(data[:HEAD]):
        return as_text.read(data)
    raise NotReadable("is not a NCCL RAS report, neither text nor JSON")
