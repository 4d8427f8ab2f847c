"""Describe the job: what was run, where and when."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Final

from collectrace.align.reading.rank_log import RankLog
from collectrace.findings import Job
from collectrace.records import Header

_RESTARTS: Final = "TORCHELASTIC_RESTART_COUNT"
_JOB: Final = "TORCHELASTIC_RUN_ID"


def describe(logs: Mapping[int, RankLog]) -> Job | None:
    """Return the job that left these logs, without its earlier attempts; None if there are none."""
    if not logs:
        return None
    ordered = [logs[rank] for rank in sorted(logs)]
    headers = [log.header for log in ordered]
    known = [log for log in ordered if log.header.wall > 0]
    return Job(
        script=shlex.join(next((h.argv for h in headers if h.argv), [])),
        # If only some name their host, the number of hosts would be wrong.
        hosts=tuple(dict.fromkeys(h.host for h in headers)) if all(h.host for h in headers) else (),
        began=min((log.header.wall for log in known), default=None),
        ended=max(
            (log.header.wall + max(0, log.last_t - log.header.t) for log in known), default=None
        ),
        attempt=max(map(restarts, headers)) + 1,
    )


def restarts(header: Header) -> int:
    """Return how often an elastic launcher had restarted the job: 0 for the first attempt."""
    text = header.env.get(_RESTARTS, "0")
    return int(text) if text.isdecimal() and len(text) < 6 else 0


def launched_as(header: Header) -> str:
    """Return the id that an elastic launcher gives all attempts of a job; empty if none."""
    return header.env.get(_JOB, "")
