"""Group processes into jobs, and choose the job that a person most likely means.

Several may run on a machine. One's own comes before another user's. Among those, one in which a
rank makes no progress comes before one that goes on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from collectrace import words
from collectrace.doctor import processes
from collectrace.doctor.processes import Process
from collectrace.records import Alive, Call, Exit, Header, Stall, readable

LONG: Final = 30.0
"""Seconds without progress after which a job may hang."""

_TAIL: Final = 1 << 18
"""Bytes at the end of a rank file that are read."""

_SILENT: Final = 3
"""Heartbeats without a line, after which a rank's silence counts."""


@dataclass(frozen=True, slots=True)
class Job:
    """The processes of one job on this machine."""

    processes: tuple[Process, ...]
    held: float = 0.0
    """Seconds without progress of its slowest rank; 0: all make progress, or not known."""


def jobs(found: Iterable[Process]) -> list[Job]:
    """Return the jobs; the one that is most likely meant comes first."""
    by_key: dict[tuple[object, ...], list[Process]] = {}
    for one in found:
        by_key.setdefault((one.user, _key(one)), []).append(one)
    made = [Job(tuple(those), max(map(held, those))) for those in by_key.values()]
    return sorted(made, key=_order)


def own_users() -> frozenset[str]:
    """Return the user names of the caller; with sudo, also the one who called it."""
    name = processes.user(os.geteuid())
    return frozenset({name, os.environ.get("SUDO_USER") or name})


def held(one: Process) -> float:
    """Return the seconds since a rank's last progress, by the end of its file."""
    found = (_held(file) for file in one.rank_files)
    return max(found, default=0.0)


def stuck(held: float) -> str:
    """Return ``a rank has made no progress for 5 min``, or nothing."""
    return f"a rank has made no progress for {words.seconds(held * 1e9)}" if held >= LONG else ""


def _key(one: Process) -> object:
    if (job := processes.job(one)) is not None:
        return job
    if one.rank_files:
        return one.rank_files[0].parent
    return ("below", one.parent) if processes.is_spawned(one) else one.pid


def _order(job: Job) -> tuple[bool, float, bool, bool, float]:
    first = job.processes[0]
    return (
        first.user not in own_users(),
        -job.held if job.held >= LONG else 0.0,
        not any(one.has_torch or one.rank_files for one in job.processes),
        first.rank is None,
        -first.started,
    )


def _held(file: Path) -> float:
    try:
        silence = time.time() - file.stat().st_mtime
        with file.open("rb") as opened:
            header = readable(opened.readline(_TAIL))
            opened.seek(max(0, opened.seek(0, os.SEEK_END) - _TAIL))
            lines = opened.read().split(b"\n")
    except OSError:
        return 0.0
    usual = _SILENT * header.heartbeat if isinstance(header, Header) else LONG
    silent = silence if silence > usual else 0.0
    for line in reversed(lines):
        record = readable(line)
        if isinstance(record, Exit):
            return 0.0
        if isinstance(record, Call):
            return silent
        if isinstance(record, Alive | Stall):
            since = [activity.since for activity in record.in_]
            return silent + (max(0, record.t - min(since)) / 1e9 if since else 0.0)
    return silent
