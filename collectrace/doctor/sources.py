"""The sources of information about a job: what there is of each, and the command for it.

:data:`SOURCES` lists them, the most informative first. A source is a function of the surroundings
that returns its row; None: there is nothing to report.
"""

from __future__ import annotations

from collections.abc import Callable
from shlex import quote
from typing import Final

from collectrace import words
from collectrace.config import SWITCH
from collectrace.doctor import flight, tools
from collectrace.doctor.known import (
    Row,
    RunFiles,
    Surroundings,
    age,
    began,
    is_switched_on,
    short,
)
from collectrace.doctor.processes import Process
from collectrace.ras.verdict import verdict

RAS_SWITCH: Final = "NCCL_RAS_ENABLE"

_FIRST_RAS: Final = (2, 24)
_MOST_PLACES: Final = 2
_DEBUG_SERVER: Final = (
    f"something listens on port {tools.DEBUG_SERVER}, as torch's debug server does, which has the "
    "Python stacks of every rank"
)
_MOST_PIDS: Final = 16
"""Most processes that one command names."""


def _rank_files(known: Surroundings) -> Row:
    name, processes = "rank files", known.processes
    traced = [one for one in processes if one.rank_files]
    run = known.runs[0] if known.runs else None
    if run is None or (processes and not traced and run.written < began(processes)):
        return Row(name, False, (_no_rank_files(known, run),))
    many = f"{len(run.ranks)} of {words.counted(run.world_size or len(run.ranks), 'rank')}"
    if traced and len(traced) < len(processes):
        many += f" ({len(traced)} of {len(processes)} processes here record themselves)"
    written = "written" if traced else "last written"
    says = (
        f"{many}, {written} {age(known, run.written)} ago: which collective, rank and line, and why"
    )
    return Row(name, True, (says,), f"python -m collectrace align {quote(short(run.folder))}")


def _no_rank_files(known: Surroundings, earlier: RunFiles | None) -> str:
    if known.folder is not None:
        return "none in it"
    if any(map(is_switched_on, known.processes)):
        return (
            f"none so far, though {SWITCH} is set: it takes collectrace installed for the job's "
            "own python, and torch 2.5 or later"
        )
    if earlier is not None:
        return f"none of this job; those in {short(earlier.folder)} are of an earlier one"
    where = words.listed([short(place) for place in known.looked_into[:_MOST_PLACES]])
    none = "none: this job does not record itself" if known.processes else "none"
    return f"{none} (looked into {where})" if where else none


def _flight(known: Surroundings) -> Row:
    name = "Flight Recorder"
    waiting = flight.pipes(known.processes)
    if known.dumps:
        newest = known.dumps[0]
        written = f"{age(known, newest.newest)} ago"
        says = f"dumps of {words.ranks(newest.ranks)}, {newest.prefix}N, written {written}"
        if newest.newest < began(known.processes):
            return Row(name, False, (f"{says}: before this job began",))
        one = f"{newest.prefix}{newest.ranks[0]}"  # represents all beside it
        return Row(
            name, True, (f"{says}: the latest calls of each rank",),
            f"python -m collectrace align {quote(one)}",
        )  # fmt: skip
    if waiting:
        pipes = " ".join(quote(str(pipe)) for pipe in waiting[:_MOST_PIDS])
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
    running = known.processes
    answered = [ras for ras in known.ras if ras.report is not None]
    if answered:
        ras = answered[0]
        assert ras.report is not None
        told = verdict(ras.report, ras.later)
        command = _ras_command(ras.where)
        if running and command and not any(one.may_use_nccl for one in running):
            others = (
                f"{ras.where} answers for another job on this machine: these processes use no NCCL"
            )
            return Row(name, False, (f"{others}.", *told), command)
        return Row(name, True, tuple(told), command)
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
    """Return a command that saves the whole report (NVIDIA's user guide, "RAS")."""
    host, colon, port = where.rpartition(":")
    if not colon or not port.isdigit():
        return None  # a saved report: it holds nothing more
    return f"echo verbose status | nc {host.strip('[]')} {port} | tee job.ras.txt"


def _stacks(known: Surroundings) -> Row | None:
    name = "stacks"
    if known.has_debug_server:
        return Row(
            name, True, (_DEBUG_SERVER,),
            f"curl -s http://localhost:{tools.DEBUG_SERVER}/stacks",
        )  # fmt: skip
    asked = known.found.hidden if known.pid is not None else ()
    processes = known.processes or asked
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
