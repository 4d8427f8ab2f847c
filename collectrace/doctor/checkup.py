"""What the doctor finds: one row for each source that can tell something of a job.

:data:`SOURCES` lists them, those that tell most first. Each is a function of what is known of the
surroundings, which gives its row: what is there, in a sentence, and what to type.
"""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from collectrace import words
from collectrace.config import SWITCH, is_switched_on
from collectrace.doctor import flight, tools
from collectrace.doctor.processes import Found, Process, job
from collectrace.errors import CollectraceError
from collectrace.ras import live
from collectrace.ras.report import Report
from collectrace.ras.verdict import OPEN, verdict

FORMAT: Final = 1
"""Version of what ``--json`` prints."""

RAS_ADDRESS: Final = "NCCL_RAS_ADDR"
RAS_SWITCH: Final = "NCCL_RAS_ENABLE"

_FIRST_RAS: Final = (2, 24)
_MOST_NOTES: Final = 3
_MOST_PLACES: Final = 2
_MOST_PIDS: Final = 16
"""Processes that one command line names."""
_STOPPED: Final = {
    "T": "was stopped by a signal; kill -CONT {pid} lets it go on",
    "t": "is stopped by a debugger",
    "Z": "has ended, and its parent has not noticed",
}


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
    """What is known, before anything is made of it."""

    found: Found
    folder: str | None = None
    """The one that was asked about."""
    pid: int | None = None
    """The process that was asked about."""
    runs: tuple[RunFiles, ...] = ()
    """The latest of each folder that was looked into."""
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
    ras: Report | None = None

    @property
    def is_worth_it(self) -> bool:
        """Whether something can be learned now."""
        return any(row.is_ready for row in self.rows)


def ask_ras(where: live.Address, *, again_after: float = 1.0) -> Ras:
    """Ask once, and once more where ranks differ: a count that moves is no hang."""
    try:
        report = live.ask(where)
        later = None
        if any(one.differences for one in report.communicators):
            time.sleep(again_after)
            later = live.ask(where)
    except live.NoAnswer as problem:
        return Ras(str(where), problem=str(problem))
    return Ras(str(where), report, later)


def examine(known: Surroundings) -> Checkup:
    """All of it, in words."""
    rows = [row for source in SOURCES for row in [source(known)] if row is not None]
    ready_first = sorted(rows, key=lambda row: not row.is_ready)
    report = next((ras.later or ras.report for ras in known.ras if ras.report is not None), None)
    return Checkup(
        _headline(known), _notes(known)[:_MOST_NOTES], tuple(ready_first), _next_time(known),
        known.processes, report,
    )  # fmt: skip


def of_report(saved: Ras) -> Checkup:
    """A saved report of RAS, and nothing else."""
    report = saved.report
    assert report is not None
    of = f" of {words.counted(report.nodes, 'node')}" if report.nodes is not None else ""
    version = f"NCCL {report.version}" if report.version else "NCCL"
    headline = f"{saved.where}: a report of {version} RAS{of}"
    row = Row("NCCL RAS", True, (*verdict(report), f"It does not tell {OPEN}."))
    return Checkup(headline, (), (row,), (), (), report)


# The processes


def _headline(known: Surroundings) -> str:
    processes, hidden = known.processes, known.found.hidden
    if not known.found.proc_is_there:
        return "this machine does not tell of its processes: there is no /proc"
    if not processes and hidden:
        users = words.listed(sorted({one.user for one in hidden}))
        those = words.counted(len(hidden), "python process", "python processes")
        them = "it" if len(hidden) == 1 else "them"
        return f"{those} of {users}, and permission denied to look into {them}: ask as {users}"
    if not processes and known.pid is not None:
        return f"process {known.pid} is no training process, and has started none"
    if not processes and known.folder is not None:
        return f"{known.folder}: no running process writes into it"
    if not processes:
        return "no training process of this user runs on this machine"
    scripts = list(dict.fromkeys(one.script for one in processes if one.script))
    what = f" of {words.listed(scripts[:2])}" if scripts else ""
    jobs = {job(one) for one in processes}
    many = f"{len(jobs)} jobs, {_many(processes)}" if len(jobs) > 1 else _many(processes)
    who = words.ranges(one.pid for one in processes)
    pids = f"pid {who}" if len(processes) == 1 else f"pids {who}"
    versions = sorted({one.torch_version for one in processes if one.torch_version})
    torch = f", torch {words.listed(versions)}" if versions else ""
    oldest = max(0.0, known.now - min(one.started for one in processes))
    alone = "; doctor PID tells of one job alone" if len(jobs) > 1 else ""
    return f"{many}{what}, {pids}, for {words.seconds(oldest * 1e9)}{torch}{alone}"


def _many(processes: tuple[Process, ...]) -> str:
    sizes = {one.world_size for one in processes}
    if all(one.rank is not None for one in processes):
        size = sizes.pop() if len(sizes) == 1 else None
        if size is not None and size > len(processes):
            return f"{len(processes)} of {words.counted(size, 'rank')}"
        return words.counted(len(processes), "rank")
    return words.counted(len(processes), "process with torch", "processes with torch")


def _notes(known: Surroundings) -> tuple[str, ...]:
    notes = []
    for one in known.processes:
        if one.state in _STOPPED:
            who = f"pid {one.pid}" if one.rank is None else f"rank {one.rank} (pid {one.pid})"
            notes.append(f"{who} {_STOPPED[one.state].format(pid=one.pid)}")
    missing = _missing(known.processes)
    if missing:
        runs = words.verb(missing, "does", "do")
        notes.append(f"local {words.ranks(missing)} {runs} not run here: ended, or not yet started")
    return tuple(notes)


def _missing(processes: tuple[Process, ...]) -> list[int]:
    """Local ranks that torchrun started here, by the others' word, and that are not there."""
    sizes = {one.environment.get("LOCAL_WORLD_SIZE") for one in processes}
    ports = {one.environment.get("MASTER_PORT") for one in processes}
    here = {one.environment.get("LOCAL_RANK") for one in processes}
    size = sizes.pop() if len(sizes) == 1 and len(ports) == 1 else None
    if size is None or not size.isdigit() or int(size) > 1024:
        return []
    return [n for n in range(int(size)) if str(n) not in here]


# The sources


def _rank_files(known: Surroundings) -> Row:
    name, processes = "rank files", known.processes
    traced = [one for one in processes if one.rank_files]
    run = known.runs[0] if known.runs else None
    if run is None or (processes and not traced and run.written < _began(processes)):
        return Row(name, False, (_no_rank_files(known, run),))
    many = f"{len(run.ranks)} of {words.counted(run.world_size or len(run.ranks), 'rank')}"
    if traced and len(traced) < len(processes):
        many += f" ({len(traced)} of {len(processes)} processes here record themselves)"
    written = "written" if traced else "last written"
    says = f"{many}, {written} {_ago(known, run.written)}: which collective, rank and line, and why"
    return Row(name, True, (says,), f"python -m collectrace align {_quoted(_short(run.folder))}")


def _no_rank_files(known: Surroundings, earlier: RunFiles | None) -> str:
    if known.folder is not None:
        return "none in it"
    if any(map(_is_switched_on, known.processes)):
        return (
            f"none so far, though {SWITCH} is set: it takes collectrace installed for the job's "
            "own python, and torch 2.5 or later"
        )
    if earlier is not None:
        return f"none of this job; those in {_short(earlier.folder)} are of an earlier one"
    where = words.listed([_short(place) for place in known.looked_into[:_MOST_PLACES]])
    none = "none: this job does not record itself" if known.processes else "none"
    return f"{none} (looked into {where})" if where else none


def _began(processes: tuple[Process, ...]) -> float:
    return min((one.started for one in processes), default=0.0)


def _ago(known: Surroundings, when: float) -> str:
    return f"{words.seconds(max(0.0, known.now - when) * 1e9)} ago"


def _flight(known: Surroundings) -> Row:
    name = "Flight Recorder"
    waiting = flight.pipes(known.processes)
    if known.dumps:
        newest = known.dumps[0]
        ago = _ago(known, newest.newest)
        says = f"dumps of {words.ranks(newest.ranks)}, {newest.prefix}N, written {ago}"
        if newest.newest < _began(known.processes):
            return Row(name, False, (f"{says}: before this job began",))
        one = f"{newest.prefix}{newest.ranks[0]}"  # stands for all beside it
        return Row(
            name, True, (f"{says}: the latest calls, and what the devices did",),
            f"python -m collectrace align {_quoted(one)}",
        )  # fmt: skip
    if waiting:
        pipes = " ".join(_quoted(str(pipe)) for pipe in waiting[:_MOST_PIDS])
        return Row(
            name, True, ("no dumps yet; these processes write them when asked, and go on",),
            f"for p in {pipes}; do echo 1 > $p; done",
        )  # fmt: skip
    if not known.processes:
        here = "in it, nor " if known.folder is not None else ""
        return Row(name, False, (f"no dumps {here}where torch writes them",))
    if not any(one.may_use_nccl for one in known.processes):
        return Row(name, False, ("no dumps: without NCCL, torch writes none by itself",))
    states = {flight.is_recording(one) for one in known.processes}
    if states == {True}:
        return Row(
            name, False, ("no dumps yet: it records, and writes when a collective times out",)
        )
    if states == {False}:
        return Row(name, False, ("no dumps: it is off in this job",))
    return Row(name, False, ("no dumps",))


def _ras(known: Surroundings) -> Row | None:
    name = "NCCL RAS"
    if not known.ras:
        return None
    answered = [ras for ras in known.ras if ras.report is not None]
    if answered:
        ras = answered[0]
        assert ras.report is not None
        told = verdict(ras.report, ras.later)
        return Row(name, True, tuple(told), _ras_command(ras.where))
    running = known.processes
    versions = sorted({one.nccl for one in running if one.nccl is not None})
    if running and not versions:
        return Row(name, False, ("these processes have not loaded NCCL",))
    if running and not any(one.may_use_nccl for one in running):
        return Row(name, False, ("these processes use no GPU, and so no NCCL",))
    known_versions = [flight.version_of(version) for version in versions]
    if known_versions and all(one is not None and one < _FIRST_RAS for one in known_versions):
        return Row(name, False, (f"NCCL {words.listed(versions)} has none: it came with 2.24",))
    if any(one.environment.get(RAS_SWITCH) == "0" for one in running):
        return Row(name, False, (f"switched off in this job: {RAS_SWITCH}=0",))
    return Row(name, False, (f"{known.ras[0].where} {known.ras[0].problem}",))


def _ras_command(where: str) -> str | None:
    """What keeps the whole report, with what every machine has (NVIDIA's user guide, "RAS")."""
    host, colon, port = where.rpartition(":")
    if not colon or not port.isdigit():
        return None  # a saved report: all it says is said
    return f"echo verbose status | nc {host.strip('[]')} {port} | tee job.ras.txt"


def _stacks(known: Surroundings) -> Row | None:
    name = "stacks"
    if known.has_debug_server:
        return Row(
            name, True, ("torch's debug server listens: Python stacks of every rank",),
            f"curl -s http://localhost:{tools.DEBUG_SERVER}/stacks",
        )  # fmt: skip
    processes = known.processes or known.found.hidden
    if not processes:
        return None
    problem = tools.ptrace(processes[0])
    spy = "py-spy dump --pid" if problem is None else "sudo py-spy dump --pid"
    command = f"{spy} {processes[0].pid}"
    if len(processes) > 1:
        command = f"for p in {_pids(processes)}; do {spy} $p; done"
    says = "py-spy shows where each process is, and stops it for a moment"
    if known.py_spy is None:
        return Row(name, False, (f"{says}; it is not installed",), f"pip install py-spy; {command}")
    if problem is not None:
        return Row(name, False, (f"{says}; not as this user: {problem}",), command)
    return Row(name, True, (says,), command)


def _pids(processes: tuple[Process, ...]) -> str:
    return " ".join(str(one.pid) for one in processes[:_MOST_PIDS])


SOURCES: Final[tuple[Callable[[Surroundings], Row | None], ...]] = (
    _rank_files,
    _flight,
    _ras,
    _stacks,
)


# Next time


def _next_time(known: Surroundings) -> tuple[str, ...]:
    """What to type before the job is started again."""
    processes = known.processes
    lines: list[str] = []
    if not processes and known.runs:
        return ()  # what ran here recorded itself
    if not processes or not all(one.rank_files for one in processes):
        bare = [one for one in processes if one.torch and not _is_installed_beside(one)]
        if bare:
            python = bare[0].arguments[0] if bare[0].arguments else "python"
            lines.append(f"{_quoted(python)} -m pip install {_quoted(_package())}")
        if not processes or not all(map(_is_switched_on, processes)):
            lines.append(f"export {SWITCH}=1")
    uses_nccl = not processes or any(one.may_use_nccl for one in processes)
    is_set = bool(processes) and all(
        any(one.environment.get(name) for name in flight.PREFIXES) for one in processes
    )
    if uses_nccl and not is_set:
        versions = {flight.version_of(one.torch_version) for one in processes}
        lines += flight.exports(versions.pop() if len(versions) == 1 else None)
    return tuple(lines)


def _is_switched_on(one: Process) -> bool:
    try:
        return is_switched_on(one.environment)
    except CollectraceError:
        return False


def _is_installed_beside(one: Process) -> bool:
    """Whether collectrace is installed where the job's torch is, and has its entry point there."""
    if one.torch is None:
        return False
    for told in one.torch.parent.glob("collectrace-*.dist-info/entry_points.txt"):
        with contextlib.suppress(OSError):
            if "torch.backends" in told.read_text(errors="replace"):
                return True
    return False


def _package() -> str:
    """What pip is to be given: the folder of this project, else its name."""
    folder = Path(__file__).parents[2]
    return str(folder) if (folder / "pyproject.toml").is_file() else "collectrace"


def _quoted(text: str) -> str:
    return shlex.quote(text)


def _short(text: str) -> str:
    """A path as seen from here, where that is shorter."""
    try:
        inside = str(Path(text).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return text
    return inside if inside != "." else "./"
