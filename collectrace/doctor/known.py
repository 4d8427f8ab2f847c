"""What is known of a job's surroundings, before anything is made of it; and what is made of it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from collectrace import config, words
from collectrace.doctor import flight
from collectrace.doctor.jobs import Job
from collectrace.doctor.processes import Found, Process
from collectrace.errors import CollectraceError
from collectrace.ras.report import Report


@dataclass(frozen=True, slots=True)
class RunFiles:
    """Rank files of one run."""

    folder: str
    """As ``align`` is to be given it."""
    run: str
    ranks: tuple[int, ...]
    world_size: int
    """By their headers; 0: none could be read."""
    written: float
    """When the last of them was, seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Ras:
    """What asking NCCL RAS came to."""

    where: str
    """Its address, or the file of a saved report."""
    report: Report | None = None
    later: Report | None = None
    """A second look, where the first saw counts that differ."""
    problem: str = ""
    """Why there is no report."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """All that was looked at."""

    found: Found
    folder: str | None = None
    """The one that was asked about."""
    pid: int | None = None
    """The process that was asked about."""
    runs: tuple[RunFiles, ...] = ()
    """The latest of each folder that was looked into."""
    held: float = 0.0
    """As ``Job.held``, of the processes."""
    others: tuple[Job, ...] = ()
    """Other jobs that run here."""
    looked_into: tuple[str, ...] = ()
    """Folders in which rank files were looked for."""
    dumps: tuple[flight.Dumps, ...] = ()
    ras: tuple[Ras, ...] = ()
    py_spy: str | None = None
    has_debug_server: bool = False
    now: float = 0.0

    @property
    def processes(self) -> tuple[Process, ...]:
        """Those of jobs."""
        return self.found.processes


@dataclass(frozen=True, slots=True)
class Row:
    """One source."""

    name: str
    is_ready: bool
    """Whether something can be learned from it now."""
    says: tuple[str, ...]
    """What is there; of RAS, what it tells."""
    command: str | None = None
    """What to type now."""


@dataclass(frozen=True, slots=True)
class Checkup:
    """The whole answer."""

    headline: str
    notes: tuple[str, ...]
    """On the processes themselves: one is stopped, one is missing."""
    rows: tuple[Row, ...]
    next_time: tuple[str, ...]
    """Lines for the shell that starts the job."""
    processes: tuple[Process, ...] = ()
    others: tuple[Process, ...] = ()
    """Of other jobs that run here."""
    ras: Report | None = None

    @property
    def is_worth_it(self) -> bool:
        """Whether something can be learned now."""
        return any(row.is_ready for row in self.rows)


# Words and questions that several need.


def is_switched_on(one: Process) -> bool:
    """Whether the variable asks for tracing in it."""
    try:
        return config.is_switched_on(one.environment)
    except CollectraceError:
        return False


def began(processes: tuple[Process, ...]) -> float:
    """When the first of them did, seconds since 1970."""
    return min((one.started for one in processes), default=0.0)


_HOUR: Final = 3600
_DAY: Final = 24 * _HOUR


def age(known: Surroundings, when: float) -> str:
    """How long ago something was: ``75 s``, ``20 min``, ``5 h``, ``12 days``."""
    seconds = max(0.0, known.now - when)
    if seconds >= 2 * _DAY:
        return f"{seconds / _DAY:.0f} days"
    return f"{seconds / _HOUR:.0f} h" if seconds >= 2 * _HOUR else words.seconds(seconds * 1e9)


def quoted(text: str) -> str:
    """As a shell takes it."""
    return shlex.quote(text)


def short(text: str) -> str:
    """A path as seen from here, where that is shorter."""
    try:
        inside = str(Path(text).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return text
    return inside if inside != "." else "./"
