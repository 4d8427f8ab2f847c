"""Find the training processes on this machine by ``/proc``, without touching them.

A process belongs to a job if it is a python that has torch loaded (``/proc/PID/maps``), or was
started with ``RANK`` and ``WORLD_SIZE`` (``/proc/PID/environ``). Left out are launchers, processes
that a rank started, such as DataLoader workers, and, if there are ranks, other processes with torch
that ``multiprocessing`` did not start.

The environment is that of the process's start: what its script sets later is not in it. A rank is
known by it, or by the rank file that the process holds open.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")

_PYTHON: Final = re.compile(r"python[\d.]*|pypy[\d.]*")
_TORCH_THREAD: Final = "pt_main_thread"
"""The name that torch gives to the main thread when it is imported."""

_KEPT: Final = re.compile(
    r"RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|MASTER_ADDR|MASTER_PORT|HOME|XDG_CACHE_HOME"
    r"|COLLECTRACE(_.*)?|TORCH_(FR|NCCL|DISTRIBUTED)_.*|NCCL_RAS_.*"
)
"""The variables that are kept; no others, because environments hold secrets."""

_RANK_FILE: Final = re.compile(r"rank(\d{1,9})(\.\d{1,9})?\.jsonl")
_GPU: Final = re.compile(r"/dev/(nvidia|kfd|dxg)")
"""Devices of NVIDIA, of AMD (torch names RCCL nccl), and of Windows' Linux."""

_LIBTORCH: Final = re.compile(r" (/\S.*)/torch/lib/libtorch[\w.]*\.so")
_LIBNCCL: Final = re.compile(r" (/\S.*/lib[nr]ccl\.so[\d.]*)")
_IN_NAME: Final = re.compile(r"libnccl\.so\.(\d+\.\d+[\d.]*)")
_VERSION: Final = re.compile(r"__version__\s*=\s*['\"]([\w.+-]{1,40})['\"]")
_SPAWNED: Final = "multiprocessing.spawn"

_LAUNCHERS: Final = ("torchrun", "-m torch.distributed.run", "-m torch.distributed.launch")

_MOST_BYTES: Final = 16 << 20
_MOST_NUMBER: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process of a job."""

    pid: int
    parent: int
    user: str
    state: str
    """As ``ps`` prints it: ``R`` runs, ``S`` sleeps, ``D`` waits for a device, ``T`` was stopped by
    a signal, ``t`` by a debugger, ``Z`` has ended."""
    started: float
    """Seconds since 1970."""
    arguments: tuple[str, ...]
    is_readable: bool
    """False: it is another user's, and only the command line is known."""
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None
    """Its working directory."""
    torch: Path | None = None
    """Folder of the torch it has loaded; None: none (so far), or of libraries elsewhere."""
    torch_version: str = ""
    has_torch: bool = False
    nccl: str | None = None
    """Version of the NCCL it has loaded; empty: not known; None: none is loaded. torch's CUDA
    wheels load it always, used or not."""
    has_gpu: bool = False
    """Whether it has opened a GPU: without one there is no communicator of NCCL."""
    rank_files: tuple[Path, ...] = ()
    """Rank files that it holds open for writing."""

    @property
    def may_use_nccl(self) -> bool:
        """Whether it may have communicators of NCCL."""
        return self.nccl is not None and self.has_gpu

    @property
    def rank(self) -> int | None:
        """Its rank in the job; None: not known from outside."""
        rank = _number(self.environment.get("RANK"))
        if rank is None and self.rank_files:
            found = _RANK_FILE.fullmatch(self.rank_files[0].name)
            return int(found[1]) if found is not None else None
        return rank

    @property
    def world_size(self) -> int | None:
        """Ranks of the job."""
        return _number(self.environment.get("WORLD_SIZE"))

    @property
    def script(self) -> str:
        """The script or module that it runs: ``train.py``, ``-m package.train``."""
        return script(self.arguments)


@dataclass(frozen=True, slots=True)
class Found:
    """The processes on this machine."""

    processes: tuple[Process, ...]
    """Those of jobs, sorted by rank and process id."""
    hidden: tuple[Process, ...] = ()
    """The number of Python processes of other users, which may belong to a job."""
    proc_is_there: bool = True


def find(pid: int | None = None, proc: Path = PROC) -> Found:
    """Find the processes of jobs.

    Args:
        pid: look only at the job of this process, be it a rank or its launcher.
        proc: the folder ``/proc``.

    Raises:
        ProcessLookupError: there is no process of that number.

    """
    if pid is not None and not (proc / str(pid)).is_dir():
        raise ProcessLookupError(pid)
    try:
        numbers = [int(path.name) for path in proc.iterdir() if path.name.isdigit()]
    except OSError:
        return Found((), proc_is_there=False)
    seen = [one for n in sorted(numbers) if n != os.getpid() and (one := _look(proc / str(n)))]
    if pid is not None:
        seen = _of_job(seen, pid)
    hidden = tuple(one for one in seen if not one.is_readable)
    ranks = _ranks([one for one in seen if one.is_readable])
    most_first = sorted(ranks, key=lambda one: (one.rank is None, one.rank or 0, one.pid))
    return Found(tuple(most_first), hidden)


def writing_to(found: Found, folder: Path) -> Found:
    """Return the processes that write rank files into a folder, or below it."""
    whole = folder.resolve()
    kept = [one for one in found.processes if any(whole in file.parents for file in one.rank_files)]
    return Found(tuple(kept), (), found.proc_is_there)


def script(arguments: Iterable[str]) -> str:
    """Return the script of a python command line, without its folder; empty: it has none."""
    rest = iter(arguments)
    next(rest, None)
    for argument in rest:
        if argument in ("-m", "-c"):
            return f"{argument} {next(rest, '')}" if argument == "-m" else argument
        if argument in ("-W", "-X"):
            next(rest, None)
        elif not argument.startswith("-"):
            return argument.rpartition("/")[2]
    return ""


# One process


def _look(folder: Path) -> Process | None:
    """Return a process if it is a python that still runs."""
    try:
        arguments = tuple(_read(folder / "cmdline").split("\0")[:-1])
        name, parent, state, ticks = _stat(_read(folder / "stat"))
        if not _is_python(folder, arguments, name):
            return None
        bare = Process(
            pid=int(folder.name),
            parent=parent,
            user=user(folder.stat().st_uid),
            state=state,
            started=_boot_time(folder.parent) + ticks / os.sysconf("SC_CLK_TCK"),
            arguments=arguments,
            is_readable=state == "Z",
        )
    except (OSError, ValueError, IndexError):
        return None
    try:
        environment = _environment(_read(folder / "environ"))
        maps = _read(folder / "maps")
        opened, cwd = _opened(folder / "fd"), (folder / "cwd").readlink()
    except OSError:
        return bare
    loaded = _LIBTORCH.search(maps)
    torch = Path(loaded[1]) / "torch" if loaded is not None else None
    return replace(
        bare,
        is_readable=True,
        environment=environment,
        folder=cwd,
        torch=torch,
        torch_version="" if torch is None else _torch_version(torch),
        has_torch="/libtorch" in maps,
        nccl=_nccl(maps),
        has_gpu=any(_GPU.match(str(file)) for file in opened),
        rank_files=tuple(sorted(file for file in opened if _RANK_FILE.fullmatch(file.name))),
    )


def _read(file: Path) -> str:
    with file.open("rb") as opened:
        return opened.read(_MOST_BYTES).decode("utf-8", "replace")


def _stat(text: str) -> tuple[str, int, str, int]:
    """Return name, parent, state, and start in ticks since boot (``man proc``)."""
    head, _, rest = text.rpartition(")")
    parts = rest.split()
    return head.partition("(")[2], int(parts[1]), parts[0], int(parts[19])


def _boot_time(proc: Path) -> int:
    found = re.search(r"^btime (\d+)", _read(proc / "stat"), re.MULTILINE)
    return int(found[1]) if found is not None else 0


def _is_python(folder: Path, arguments: tuple[str, ...], name: str) -> bool:
    if name == _TORCH_THREAD or _PYTHON.fullmatch(name):
        return True
    if arguments and _PYTHON.fullmatch(arguments[0].rpartition("/")[2]):
        return True
    try:  # what renamed itself, as Ray's workers do
        return _PYTHON.fullmatch((folder / "exe").readlink().name) is not None
    except OSError:
        return False


def user(uid: int) -> str:
    """Return the name of a user, or the number if there is no name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _environment(text: str) -> dict[str, str]:
    pairs = (pair.partition("=") for pair in text.split("\0"))
    return {name: value for name, _, value in pairs if _KEPT.fullmatch(name)}


def _number(text: str | None) -> int | None:
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 7:
        return None
    return int(text) if int(text) < _MOST_NUMBER else None


def _opened(folder: Path) -> list[Path]:
    """Return the files and devices that a process has open."""
    found = []
    for link in folder.iterdir():
        try:
            found.append(link.readlink())
        except OSError:  # closed meanwhile
            continue
    return found


def _torch_version(torch: Path) -> str:
    try:
        found = _VERSION.search(_read(torch / "version.py"))
    except OSError:
        return ""
    return found[1] if found is not None else ""


def _nccl(maps: str) -> str | None:
    """Return the version of the mapped NCCL, by its file name or by pip's metadata.

    In wheels of torch it is ``nvidia/nccl/lib/libnccl.so.2``, of the package ``nvidia-nccl-cu12``.
    """
    loaded = _LIBNCCL.search(maps)
    if loaded is None:
        return None
    if (in_name := _IN_NAME.search(loaded[1])) is not None:
        return in_name[1]
    packages = Path(loaded[1]).parents
    if len(packages) > 3:
        for info in sorted(packages[3].glob("nvidia_nccl_cu*-*.dist-info")):
            return info.name.removesuffix(".dist-info").partition("-")[2]
    return ""


# Together


def _ranks(seen: list[Process]) -> list[Process]:
    """Return the ranks of jobs, without launchers and helpers."""
    by_pid = {one.pid: one for one in seen}
    of_jobs = [
        one
        for one in seen
        if (one.has_torch or _says_rank(one) or one.rank_files) and one.script not in _LAUNCHERS
    ]
    launchers: set[int] = set()
    for one in of_jobs:
        above = by_pid.get(one.parent)
        if one.rank is not None or is_spawned(one):
            while above is not None and above.rank is None:
                launchers.add(above.pid)
                above = by_pid.get(above.parent)
    kept = {one.pid: one for one in of_jobs if one.pid not in launchers}
    found = [one for one in kept.values() if not _is_helper(one, kept)]
    return [one for one in found if one.rank is not None or is_spawned(one)] or found


def _says_rank(one: Process) -> bool:
    return one.rank is not None and one.world_size is not None


def is_spawned(one: Process) -> bool:
    """Return whether ``multiprocessing`` started it."""
    return any(_SPAWNED in argument for argument in one.arguments)


def _is_helper(one: Process, kept: Mapping[int, Process]) -> bool:
    """Return whether a rank started the process: it has that rank's variables and open files."""
    above = kept.get(one.parent)
    return above is not None and one.rank in (None, above.rank)


def _of_job(seen: list[Process], pid: int) -> list[Process]:
    """Return the process, its descendants, and those started like it."""
    below = {pid}
    for _ in range(8):  # launcher, agent, rank, worker: no job is deeper
        below |= {one.pid for one in seen if one.parent in below}
    keys = {job(one) for one in seen if one.pid in below and job(one) is not None}
    return [one for one in seen if one.pid in below or job(one) in keys]


def job(one: Process) -> tuple[str | None, ...] | None:
    """Return the key that the ranks of one job have in common."""
    if not _says_rank(one):
        return None
    names = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE")
    return one.script, *(one.environment.get(name) for name in names)
