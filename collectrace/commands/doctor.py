"""List what can be learned about a job that runs or ran here, and the commands for it.

It looks for rank files, Flight Recorder dumps, NCCL RAS and ways to see stacks. It reads files and
/proc, and queries RAS. It attaches to no process and stops none.

for example:
  python -m collectrace doctor                   the jobs on this machine
  python -m collectrace doctor 4711              the job of this process or torchrun
  python -m collectrace doctor logs/             the files in this folder
  python -m collectrace doctor job.ras.txt       a saved report of ncclras

exit status:
  0  something can be learned now
  2  no such folder, file or process, or the command line is wrong
  3  nothing can be learned now: the output says what to set for the next run
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from collectrace.commands import arguments as common
from collectrace.config import PREFIX, Config
from collectrace.errors import CollectraceError

if TYPE_CHECKING:
    from collectrace.doctor.jobs import Job
    from collectrace.doctor.known import Checkup, Ras, RunFiles
    from collectrace.doctor.processes import Found, Process

HELP: Final = "list what can be learned about a job now"

NOTHING: Final = 3
"""Exit status if nothing can be learned."""

_PAGE: Final = 1 << 16
_MOST_FOLDERS: Final = 8
_LONGEST_PID: Final = 10
_DEPTH: Final = 4
"""How deep below the given folder logs are searched, as ``align`` does."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare where to look."""
    parser.add_argument(
        "where",
        metavar="FOLDER|PID",
        nargs="?",
        type=common.place,
        help="a folder, a process, or a saved report of NCCL RAS (default: what runs here)",
    )
    common.add_json(parser)


def execute(arguments: Namespace, stdout: TextIO, stderr: TextIO) -> int:  # noqa: ARG001 - as every command
    """Examine the job and print what was found."""
    common.check_json(arguments.json)
    from collectrace.commands.doctor_page import write

    checkup = _examine(arguments.where)
    common.deliver(arguments.json, stdout, as_dict(checkup), lambda out: write(checkup, out))
    return 0 if checkup.is_worth_it else NOTHING


def _examine(where: str | None) -> Checkup:
    from collectrace.doctor import checkup, flight, jobs, known, processes, tools

    given, saved, pid = _where(where)
    if given is None and saved:
        try:
            return checkup.of_report(_saved(saved[0]))
        except CollectraceError as problem:
            more = "Give the output of ncclras, a folder of logs, or a process."
            raise CollectraceError(f"{problem}. {more}") from None
    try:
        found = processes.find(pid)
    except ProcessLookupError:
        raise CollectraceError(f"there is no process {pid}. Leave it out to see all.") from None
    others: list[Job] = []
    if given is not None:
        found = processes.writing_to(found, given)
    elif pid is None and found.processes:
        meant, *others = jobs.jobs(found.processes)
        found = replace(found, processes=meant.processes)
    folders = [given] if given is not None else _folders(found)
    runs = [run for folder in folders if (run := _run(folder)) is not None]
    written = {str(file.parent) for one in found.processes for file in one.rank_files}
    environment = dict(os.environ)
    ras = [_found_report(path) for path in saved]
    if given is None or found.processes:
        ras.append(_ras(found, environment))
    return checkup.examine(
        known.Surroundings(
            found=found,
            folder=None if given is None else str(given),
            pid=pid,
            runs=tuple(sorted(runs, key=lambda run: (run.folder not in written, -run.written))),
            held=max(map(jobs.held, found.processes), default=0.0),
            others=tuple(others),
            looked_into=tuple(map(str, folders)),
            dumps=tuple(flight.dumps(flight.prefixes(found.processes, environment), given)),
            ras=tuple(ras),
            py_spy=tools.py_spy(),
            has_debug_server=tools.listens(tools.DEBUG_SERVER),
            torch_version=tools.torch_version(),
            now=time.time(),
        )
    )


def _where(text: str | None) -> tuple[Path | None, list[Path], int | None]:
    """Return the folder that the argument names, RAS reports (in it, or itself), and the process.

    Raises:
        CollectraceError: it is not a folder, file or process, or may not be read.

    """
    if text is None:
        return None, [], None
    path = Path(text)
    if text.isascii() and text.isdigit() and not path.exists():
        if len(text) > _LONGEST_PID:
            raise CollectraceError(f"there is no process {text}. Leave it out to see all.")
        return None, [], int(text)
    if path.is_dir():
        if not os.access(path, os.R_OK | os.X_OK):
            why = os.strerror(errno.EACCES)
            raise CollectraceError(f"cannot read {path}: {why}. Run as its owner.")
        saved = [*path.glob("*.ras.txt"), *path.glob("*.ras.json")]
        return path, sorted(saved, key=lambda file: file.stat().st_mtime)[-1:], None
    if path.is_file():
        return None, [path], None
    raise CollectraceError(f"{text}: no such folder, file or process. Leave it out to see all.")


def _folders(found: Found) -> list[Path]:
    """Return the folders in which the processes write rank files, or would; and the one here."""
    usual = Config().log_dir
    folders = []
    for one in found.processes:
        # The run's folder, or that of a host in it: folders above it hold other runs as well.
        folders += [file.parent for file in one.rank_files]
        if one.folder is not None:
            folders.append(one.folder / one.environment.get(f"{PREFIX}LOG_DIR", usual))
    known = {folder.resolve(): folder for folder in [*folders, Path(usual)]}
    return list(known.values())[:_MOST_FOLDERS]


def _run(folder: Path) -> RunFiles | None:
    """Return the latest readable run in a folder, if any."""
    from collectrace.align.reading import process_files, runs
    from collectrace.align.reading.source import open_folder
    from collectrace.doctor.known import RunFiles

    try:
        if not _holds_logs(folder, _DEPTH):
            return None
        opened = open_folder(folder)
        files = process_files.list_files(opened, _PAGE)
        if not files:
            return None
        choice = runs.choose(opened, files, None)
    except (CollectraceError, OSError):
        return None
    headers = [header for file in choice.files if (header := file.peek()) is not None]
    ranks = {file.rank for file in choice.files if file.rank is not None}
    written = []
    for file in choice.files:
        for name in file.segments.names:
            with contextlib.suppress(OSError):
                written.append((folder / name).stat().st_mtime)
    return RunFiles(
        str(folder), choice.name, tuple(sorted(ranks)),
        max((header.world_size or 0 for header in headers), default=0), max(written, default=0.0),
    )  # fmt: skip


def _holds_logs(folder: Path, depth: int) -> bool:
    """Return whether a folder holds rank files, in it or below, without opening other files."""
    below = []
    try:
        inside = list(folder.iterdir())
    except OSError:
        return False
    for path in inside:
        if path.name.endswith((".jsonl", ".jsonl.gz")):
            return True
        if depth > 0 and not path.name.startswith(".") and path.is_dir() and not path.is_symlink():
            below.append(path)
    return any(_holds_logs(path, depth - 1) for path in below)


def _saved(path: Path) -> Ras:
    """Return the RAS report in a file.

    Raises:
        CollectraceError: it is none.

    """
    from collectrace import ras
    from collectrace.doctor.known import Ras
    from collectrace.ras.report import NotReadable

    with path.open("rb") as file:
        data = file.read(ras.MOST_BYTES + 1)
    try:
        return Ras(str(path), ras.read(data))
    except NotReadable as problem:
        raise CollectraceError(f"{path} {problem}") from None


def _found_report(path: Path) -> Ras:
    """Return a RAS report found in a folder; if it is unreadable, with the problem."""
    from collectrace.doctor.known import Ras

    try:
        return _saved(path)
    except (CollectraceError, OSError) as problem:
        return Ras(path.name, problem=str(problem).removeprefix(str(path)).strip())


def _ras(found: Found, environment: Mapping[str, str]) -> Ras:
    """Query RAS at the address in the environment of the processes or of this shell."""
    from collectrace.doctor import checkup, known
    from collectrace.ras import live

    said = [one.environment.get(checkup.RAS_ADDRESS) for one in found.processes]
    text = next(filter(None, [*said, environment.get(checkup.RAS_ADDRESS)]), live.ADDRESS)
    try:
        where = live.address(text)
    except ValueError as problem:
        return known.Ras(text, problem=f"cannot be asked: {checkup.RAS_ADDRESS} {problem}")
    return checkup.ask_ras(where)


def as_dict(checkup: Checkup) -> dict[str, object]:
    """Return the whole answer as plain values."""
    from collectrace.doctor.checkup import FORMAT

    return {
        "format": FORMAT,
        "can_learn": checkup.is_worth_it,
        "headline": checkup.headline,
        "notes": list(checkup.notes),
        "sources": [asdict(row) for row in checkup.rows],
        "next_time": list(checkup.next_time),
        "processes": [_process(one) for one in (*checkup.processes, *checkup.others)],
        "job": [one.pid for one in checkup.processes],
        "ras": None if checkup.ras is None else asdict(checkup.ras),
    }


def _process(one: Process) -> dict[str, object]:
    return {
        "pid": one.pid,
        "rank": one.rank,
        "world_size": one.world_size,
        "user": one.user,
        "state": one.state,
        "started": one.started,
        "script": one.script,
        "torch": one.torch_version or None,
        "nccl": one.nccl,
        "rank_files": [str(file) for file in one.rank_files],
        "variables": {
            n: v for n, v in one.environment.items() if n not in ("HOME", "XDG_CACHE_HOME")
        },
    }
