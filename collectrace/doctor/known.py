"""The types of the doctor: what it looked at, and what it answers."""

from __future__ import annotations

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
    """The path to give to ``align``."""
    run: str
    ranks: tuple[int, ...]
    world_size: int
    """Ranks of the job by their headers; 0: none could be read."""
    written: float
    """When the newest was written, seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Ras:
    """The result of a query to NCCL RAS."""

    where: str
    """Its address, or the file of a saved report."""
    report: Report | None = None
    later: Report | None = None
    """The report of a second query, if counts differed in the first."""
    problem: str = ""
    """Why there is no report."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Everything that the doctor looked at."""

    found: Found
    folder: str | None = None
    """The folder that was given; None: none was."""
    pid: int | None = None
    """The process that was given; None: none was."""
    runs: tuple[RunFiles, ...] = ()
    """The latest run of each folder that was searched."""
    held: float = 0.0
    """Seconds without progress, as in ``Job.held``."""
    others: tuple[Job, ...] = ()
    """Other jobs that run here."""
    looked_into: tuple[str, ...] = ()
    """Folders that were searched for rank files."""
    dumps: tuple[flight.Dumps, ...] = ()
    ras: tuple[Ras, ...] = ()
    py_spy: str | None = None
    has_debug_server: bool = False
    torch_version: str = ""
    """That of the torch which is installed here; empty: none is."""
    now: float = 0.0

    @property
    def processes(self) -> tuple[Process, ...]:
        """The processes of jobs."""
        return self.found.processes


@dataclass(frozen=True, slots=True)
class Row:
    """One source of information."""

    name: str
    is_ready: bool
    """Whether something can be learned from it now."""
    says: tuple[str, ...]
    """What is there; for RAS, what it reports."""
    command: str | None = None
    """The command for it."""


@dataclass(frozen=True, slots=True)
class Checkup:
    """The whole answer."""

    headline: str
    notes: tuple[str, ...]
    """Remarks about the processes: one is stopped, one is missing."""
    rows: tuple[Row, ...]
    next_time: tuple[str, ...]
    """Lines for the shell that starts the job."""
    processes: tuple[Process, ...] = ()
    others: tuple[Process, ...] = ()
    """Lines about other jobs that run here."""
    ras: Report | None = None

    @property
    def is_worth_it(self) -> bool:
        """Whether something can be learned now."""
        return any(row.is_ready for row in self.rows)


# Words and questions that several need.


def is_switched_on(one: Process) -> bool:
    """Return whether the variable switches tracing on in a process."""
    try:
        return config.is_switched_on(one.environment)
    except CollectraceError:
        return False


def began(processes: tuple[Process, ...]) -> float:
    """Return when the first process began, seconds since 1970."""
    return min((one.started for one in processes), default=0.0)


_HOUR: Final = 3600
_DAY: Final = 24 * _HOUR


def age(known: Surroundings, when: float) -> str:
    """Return an age in words: ``75 s``, ``20 min``, ``5 h``, ``12 days``."""
    seconds = max(0.0, known.now - when)
    if seconds >= 2 * _DAY:
        return f"{seconds / _DAY:.0f} days"
    return f"{seconds / _HOUR:.0f} h" if seconds >= 2 * _HOUR else words.seconds(seconds * 1e9)


def short(text: str) -> str:
    """Return a path relative to the working directory, if that is shorter."""
    try:
        inside = str(Path(text).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return text
    return inside if inside != "." else "./"
