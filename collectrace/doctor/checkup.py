"""The doctor's whole answer: the processes here, what can be learned now, what to set next time."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from shlex import quote
from typing import Final

from collectrace import words
from collectrace.config import SWITCH
from collectrace.doctor import flight, jobs
from collectrace.doctor.known import (
    Checkup,
    Ras,
    Row,
    Surroundings,
    age,
    began,
    is_switched_on,
)
from collectrace.doctor.processes import Process, job
from collectrace.doctor.sources import SOURCES
from collectrace.ras import live
from collectrace.ras.verdict import LACKS, verdict

FORMAT: Final = 1
"""Version of what ``--json`` prints."""

RAS_ADDRESS: Final = "NCCL_RAS_ADDR"

_MOST_NOTES: Final = 3
_MOST_OTHERS: Final = 4
_STOPPED: Final = {
    "T": "was stopped by a signal; kill -CONT {pid} lets it go on",
    "t": "is stopped by a debugger",
}


def ask_ras(where: live.Address, *, again_after: float = 1.0) -> Ras:
    """Query RAS once, and again if ranks differ, because counts that move are not a hang."""
    try:
        report = live.ask(where)
    except live.NoAnswer as problem:
        return Ras(str(where), problem=str(problem))
    later = None
    if any(one.differences for one in report.communicators):
        time.sleep(again_after)
        with contextlib.suppress(live.NoAnswer):  # the job may have ended meanwhile
            later = live.ask(where)
    return Ras(str(where), report, later)


def examine(known: Surroundings) -> Checkup:
    """Return the whole answer, in words."""
    rows = [row for source in SOURCES for row in [source(known)] if row is not None]
    ready_first = sorted(rows, key=lambda row: not row.is_ready)
    report = next((ras.later or ras.report for ras in known.ras if ras.report is not None), None)
    return Checkup(
        _headline(known), (*_notes(known)[:_MOST_NOTES], *_others(known)), tuple(ready_first),
        _next_time(known), known.processes,
        tuple(one for other in known.others for one in other.processes), report,
    )  # fmt: skip


def of_report(saved: Ras) -> Checkup:
    """Return the answer for a saved report of RAS alone."""
    report = saved.report
    assert report is not None
    of = f" of {words.counted(report.nodes, 'node')}" if report.nodes is not None else ""
    version = f"NCCL {report.version}" if report.version else "NCCL"
    headline = f"{saved.where}: a report of {version} RAS{of}"
    row = Row("NCCL RAS", True, (*verdict(report), f"It does not show {LACKS}."))
    return Checkup(headline, (), (row,), (), ras=report)


# The processes


def _headline(known: Surroundings) -> str:
    processes, hidden = known.processes, known.found.hidden
    if not known.found.proc_is_there:
        return "this machine does not show its processes: there is no /proc"
    if not processes and hidden and known.pid is not None:
        user = hidden[0].user
        return f"process {known.pid} is {user}'s: permission denied. Run doctor as {user}."
    if not processes and known.pid is not None:
        return f"process {known.pid} is not a training process, and has started none"
    if not processes and known.folder is not None:
        return f"{known.folder}: no running process writes into it"
    if not processes:
        nobody = "no training process of this user runs on this machine"
        if not hidden:
            return nobody
        users = words.listed(sorted({one.user for one in hidden}))
        those = words.counted(len(hidden), "python process", "python processes")
        return f"{nobody}; permission denied to look into {those} of {users}"
    together = {job(one) for one in processes}
    many = f"{len(together)} jobs, " if len(together) > 1 else ""
    versions = sorted({one.torch_version for one in processes if one.torch_version})
    torch = f", torch {words.listed(versions)}" if versions else ""
    alone = "; doctor PID reports on one job" if many else ""
    return f"{many}{_who(processes)}, for {age(known, began(processes))}{torch}{alone}"


def _who(processes: tuple[Process, ...]) -> str:
    """Return ``2 ranks of train.py, pids 11,12``, with the user if it is another one."""
    scripts = list(dict.fromkeys(one.script for one in processes if one.script))
    what = f" of {words.listed(scripts[:2])}" if scripts else ""
    users = sorted({one.user for one in processes} - jobs.own_users())
    whose = f" ({words.listed(users)}'s)" if users else ""
    pids = words.ranges(one.pid for one in processes)
    return f"{_many(processes)}{what}{whose}, pid{'s' * (len(processes) > 1)} {pids}"


def _others(known: Surroundings) -> list[str]:
    """Return a line for each other job, with the command for it."""
    told = [
        "; ".join(
            part
            for part in (
                f"also here: {_who(other.processes)}",
                jobs.stuck(other.held),
                f"python -m collectrace doctor {other.processes[0].pid}",
            )
            if part
        )
        for other in known.others[:_MOST_OTHERS]
    ]
    more = len(known.others) - _MOST_OTHERS
    return [*told, *([f"and {words.counted(more, 'other job')}"] if more > 0 else [])]


def _many(processes: tuple[Process, ...]) -> str:
    sizes = {one.world_size for one in processes}
    if all(one.rank is not None for one in processes):
        size = sizes.pop() if len(sizes) == 1 else None
        if size is not None and size > len(processes):
            return f"{len(processes)} of {words.counted(size, 'rank')}"
        return words.counted(len(processes), "rank")
    return words.counted(len(processes), "process with torch", "processes with torch")


def _notes(known: Surroundings) -> tuple[str, ...]:
    notes = [note for note in [jobs.stuck(known.held)] if note]
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
    """Return the local ranks that should run here, by the environment of the others, and do not."""
    sizes = {one.environment.get("LOCAL_WORLD_SIZE") for one in processes}
    ports = {one.environment.get("MASTER_PORT") for one in processes}
    here = {one.environment.get("LOCAL_RANK") for one in processes}
    size = sizes.pop() if len(sizes) == 1 and len(ports) == 1 else None
    if size is None or not size.isdigit() or int(size) > 1024:
        return []
    return [n for n in range(int(size)) if str(n) not in here]


# Next time


def _next_time(known: Surroundings) -> tuple[str, ...]:
    """Return the commands to run before the job is started again."""
    processes = known.processes
    lines: list[str] = []
    if not processes and known.runs:
        return ()  # the job recorded itself
    if not processes or not all(one.rank_files for one in processes):
        bare = [one for one in processes if one.torch and not _is_installed_beside(one)]
        if bare:
            python = bare[0].arguments[0] if bare[0].arguments else "python"
            lines.append(f"{quote(python)} -m pip install {quote(_package())}")
        if not processes or not all(map(is_switched_on, processes)):
            lines.append(f"export {SWITCH}=1")
    uses_nccl = not processes or any(one.may_use_nccl for one in processes)
    is_set = bool(processes) and all(
        any(one.environment.get(name) for name in flight.PREFIXES) for one in processes
    )
    if uses_nccl and not is_set:
        installed = [one.torch_version for one in processes] or [known.torch_version]
        versions = set(map(flight.version_of, installed))
        lines += flight.exports(versions.pop() if len(versions) == 1 else None)
    return tuple(lines)


def _is_installed_beside(one: Process) -> bool:
    """Return whether collectrace, with its entry point, is installed beside the job's torch."""
    if one.torch is None:
        return False
    for told in one.torch.parent.glob("collectrace-*.dist-info/entry_points.txt"):
        with contextlib.suppress(OSError):
            if "torch.backends" in told.read_text(errors="replace"):
                return True
    return False


def _package() -> str:
    """Return the argument for pip: the folder of this project, or its name."""
    folder = Path(__file__).parents[2]
    return str(folder) if (folder / "pyproject.toml").is_file() else "collectrace"
