"""Copy logs from many machines: run ``tar`` on each, and unpack its output here.

A command reaches each host: a row of :data:`WAYS`, or one that the user writes. The output is not
trusted: only regular files with names of log files are taken, into the host's own folder.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Final

from collectrace import file_modes
from collectrace.archives import BROKEN, Archive
from collectrace.errors import CollectraceError
from collectrace.log_folder import is_source

WAYS: Final[dict[str, str]] = {
    "ssh": "ssh -o BatchMode=yes -- {host}",
    "kubectl": "kubectl exec {host} --",
    "srun": "srun --quiet --nodes=1 --ntasks=1 --overlap --nodelist={host}",
    "docker": "docker exec {host}",
}
"""How to run a command on a host, by a name for it. ssh hands its arguments to a shell."""

_LOG: Final = re.compile(r"[\w.@-]+\.(jsonl|txt|json)(\.gz)?")
"""What rank files and what lies beside them are called."""

_DEEPEST: Final = 5
_LONGEST: Final = 300
_CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Source:
    """A folder of logs on a host; on this machine if ``host`` is empty."""

    host: str
    folder: str

    @classmethod
    def parse(cls, text: str) -> Source:
        """Parse ``node1:/job/logs``, or a folder on this machine.

        Raises:
            CollectraceError: it is neither.

        """
        host, colon, folder = text.partition(":")
        if not colon or "/" in host:
            host, folder = "", text
        if not folder or host.startswith("-"):
            raise CollectraceError(
                f"{text!r} is not a place. Give HOST:FOLDER, such as node1:/job/logs."
            )
        return cls(host, folder)

    @property
    def name(self) -> str:
        """The name of its folder among the gathered logs."""
        told = self.host or PurePosixPath(os.path.abspath(self.folder)).as_posix()  # noqa: PTH100
        return re.sub(r"[^\w.-]+", "_", told).strip("._") or "here"


@dataclass(frozen=True, slots=True)
class Gathered:
    """The result of copying one source."""

    source: Source
    files: int = 0
    bytes: int = 0
    problem: str = ""
    """Why it is incomplete; empty: it is complete."""


def way(text: str) -> str:
    """Return the command line that reaches a host, with ``{host}`` in it.

    Raises:
        CollectraceError: it is not a name of :data:`WAYS` and has no ``{host}``.

    """
    command = WAYS.get(text, text)
    if "{host}" not in command or not shlex.split(command):
        names = ", ".join(WAYS)
        raise CollectraceError(
            f"--via {text} is not known. Use {names}, or a command with {{host}} in it."
        )
    return command


def gather(source: Source, to: Path, via: str) -> Gathered:
    """Copy one folder of logs; replace existing files by longer ones only.

    Args:
        source: what to fetch.
        to: the folder in which the host's own is made.
        via: a command line with ``{host}`` in it.

    """
    argv = command(source, via)
    if shutil.which(argv[0]) is None:
        return Gathered(source, problem=f"{argv[0]} is not installed here")
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said
        )
        assert process.stdout is not None
        problem, files, size = "", 0, 0
        try:
            with process.stdout as stream:
                files, size = _unpack(stream, to / source.name)
        except (*BROKEN, CollectraceError) as broken:
            problem = str(broken)
            process.kill()  # it may have terabytes to send
        except BaseException:
            process.kill()
            raise
        finally:
            status = process.wait()
        said.seek(0)
        complaint = said.read(1 << 16).decode(errors="replace").strip()
    # tar exits with 1 if a file grew while it was read, as the logs of a running job do. It may be
    # ended by a signal because the zeros at the end of its archive were not read.
    if status > 1 or (status > 0 and not files) or (problem and not files):
        said_first = (line for line in complaint.splitlines() if not line.startswith("Warning"))
        ended = f"{argv[0]} ended with exit status {status}" if status > 0 else problem
        why = next(said_first, ended)
        return Gathered(source, files, size, problem=why[:_LONGEST])
    if not files:
        return Gathered(source, problem=f"no log files in {source.folder}")
    return Gathered(source, files, size, problem=problem and f"cut short: {problem}")


def command(source: Source, via: str) -> list[str]:
    """Return the command line of tar, here or on the host."""
    tar = ["tar", "-cf", "-", "-C", source.folder, "."]
    if not source.host:
        return tar
    reach = [part.replace("{host}", source.host) for part in shlex.split(via)]
    is_shell = PurePosixPath(reach[0]).name == "ssh"
    return [*reach, shlex.join(tar)] if is_shell else [*reach, *tar]


def _unpack(stream: IO[bytes], to: Path) -> tuple[int, int]:
    """Take the log files out of an archive: how many, and their bytes."""
    files = size = 0
    archive = Archive(stream)
    for member in archive:
        parts = PurePosixPath(member.name).parts
        is_safe = all(part != ".." and not part.startswith("/") for part in parts)
        if is_safe and _is_log(PurePosixPath(member.name)):
            _keep_longer(archive.open(member), to.joinpath(*parts), member.size)
            files, size = files + 1, size + member.size
    return files, size


def _is_log(path: PurePosixPath) -> bool:
    """Whether a path is that of a log file, or of the program's text beside it."""
    if is_source(path):
        return len(path.parts) <= _DEEPEST + 1
    return _LOG.fullmatch(path.name) is not None and len(path.parts) <= _DEEPEST


def _keep_longer(data: IO[bytes], path: Path, size: int) -> None:
    """Write a file whole, unless what is there is longer: logs only grow."""
    if path.exists() and path.stat().st_size > size:
        return
    file_modes.make_folder(path.parent)
    if size > shutil.disk_usage(path.parent).free:
        raise CollectraceError(
            f"no room in {path.parent} for {path.name} ({size >> 20} MiB). Free some, or name "
            "another -o."
        )
    part = path.with_name(f".{path.name}.part")
    try:
        with open(part, "wb", opener=file_modes.opener) as out:
            shutil.copyfileobj(data, out, _CHUNK)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def failures(gathered: Sequence[Gathered]) -> list[Gathered]:
    """Return the sources that failed."""
    return [one for one in gathered if one.problem]
