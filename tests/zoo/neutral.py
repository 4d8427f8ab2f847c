"""Logs without what only their own machine has: paths, host, process ids, addresses, times.

Two recordings of one run then differ in little but the time between lines, and a recording reads
the same wherever it lies. What takes the place of a path of the machine is a name in capitals in
angle brackets, so that no real path can be taken for one.
"""

from __future__ import annotations

import platform
import re
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from collectrace.log_folder import is_source

REPOSITORY: Final = b"/<REPOSITORY>"
"""Stands for the root of the checkout that the run was recorded in."""

_FOLDER: Final = b"/<FOLDER>"
_PYTHON: Final = b"/<PYTHON>"
_HOST: Final = "recorded.invalid"
_WALL: Final = 1_767_225_600_000_000_000
"""When every recorded run began: 2026-01-01 00:00:00 UTC, ns since 1970."""
_FIRST: Final = 1_000_000_000
"""What the monotonic clock showed then, ns."""

_RUN: Final = re.compile(rb"\d{8}-\d{6}-[0-9a-f]{6}")
_PID: Final = re.compile(rb'"(pid|holder|child)":(\d+)')
_OTHERS: Final = re.compile(rb'"others":\[[\d,]*\]')
_INODE: Final = re.compile(rb"\b(pipe|socket):\[\d+\]")
_IDENT: Final = re.compile(rb"\b1[34]\d{13}\b|\b0x[0-9a-f]{9,16}\b")
"""A thread or an object, by its address: Linux maps both high up."""
_PORT: Final = re.compile(rb"(\[(?:127\.0\.0\.1|::1)\]:)\d+")
_T: Final = re.compile(rb'"(t|since)":(\d+)')
_SINCE_1970: Final = re.compile(rb'"(wall|time_\w+_ns)":(\d{19})\b')

Files = Mapping[str, bytes]
"""Content by name, relative to the log folder."""


def neutral(files: Files, roots: Sequence[Path], folder: Path) -> dict[str, bytes]:
    """Return a run's files with every mark of the machine replaced, their names included.

    Args:
        files: everything in the log folder.
        roots: the folders below which the run's program lies, the checkout among them.
        folder: the run's own folder, in which its log folder lies.

    """
    names = _Names(files)
    paths = {
        # The interpreter of a virtual environment may lie in the checkout: longest first.
        str(folder).encode(): _FOLDER,
        **{str(root).encode(): REPOSITORY for root in roots},
        sysconfig.get_paths()["stdlib"].encode(): _PYTHON + b"/lib/python3",
        sys.base_prefix.encode(): _PYTHON,
    }
    longest = sorted(paths, key=len, reverse=True)
    shift, since_1970 = _shifts(files)

    def rewrite(text: bytes) -> bytes:
        for path in longest:
            text = text.replace(path, paths[path])
        text = text.replace(f'"host":"{platform.node()}"'.encode(), f'"host":"{_HOST}"'.encode())
        text = _RUN.sub(lambda m: names.runs[m[0]], text)
        text = _PID.sub(lambda m: b'"%b":%d' % (m[1], names.pids[m[2]]), text)
        text = _OTHERS.sub(lambda m: re.sub(rb"\d+", names.other, m[0]), text)
        text = _INODE.sub(rb"\1:[1]", text)
        text = _IDENT.sub(lambda m: names.ident(m[0]), text)
        text = _PORT.sub(rb"\g<1>29500", text)
        text = _T.sub(lambda m: b'"%b":%d' % (m[1], max(0, int(m[2]) - shift)), text)
        return _SINCE_1970.sub(lambda m: b'"%b":%d' % (m[1], int(m[2]) - since_1970), text)

    # A text of the program is known by its hash, and holds no more of the machine than the script.
    return {
        names.file(name): text if is_source(PurePosixPath(name)) else rewrite(text)
        for name, text in sorted(files.items())
    }


class _Names:
    """What takes the place of run ids, process ids and addresses, the same in all files."""

    def __init__(self, files: Files) -> None:
        texts = [files[name] for name in sorted(files)]
        runs = {m for text in texts for m in _RUN.findall(text)}
        runs |= {m for name in files for m in _RUN.findall(name.encode())}
        # Their order stays, for the latest run is the one that is read.
        self.runs = {run: b"20260101-0000%02d-%06x" % (n, n) for n, run in enumerate(sorted(runs))}
        pids = dict.fromkeys(pid for text in texts for _, pid in _PID.findall(text))
        self.pids = {pid: 1001 + n for n, pid in enumerate(pids)}
        self._idents: dict[int, int] = {}

    def other(self, pid: re.Match[bytes]) -> bytes:
        """A process that may be one of those that have a name."""
        return b"%d" % self.pids.setdefault(pid[0], 1001 + len(self.pids))

    def ident(self, text: bytes) -> bytes:
        """An address, in the notation that it had."""
        number = int(text, 0)
        at = self._idents.setdefault(number, 140_000_000_000_000 + 4096 * len(self._idents))
        return b"%d" % at if not text.startswith(b"0x") else b"0x%016x" % at

    def file(self, name: str) -> str:
        """A file's name: it holds the run's id or, before there is one, host and process id."""
        text = _RUN.sub(lambda m: self.runs[m[0]], name.encode()).decode()
        for pid, number in self.pids.items():
            text = re.sub(
                rf"{re.escape(platform.node())}-{pid.decode()}\b", f"{_HOST}-{number}", text
            )
        return text


def _shifts(files: Files) -> tuple[int, int]:
    """What to take from the monotonic clock, and from the wall clock, ns."""
    texts = files.values()
    t = [int(m[1]) for text in texts for m in _T.findall(text) if m[0] == b"t" and m[1] != b"0"]
    wall = [int(m[1]) for text in texts for m in _SINCE_1970.findall(text) if m[0] == b"wall"]
    return min(t, default=_FIRST) - _FIRST, min(wall, default=_WALL) - _WALL


def without_times(files: Files) -> dict[str, list[bytes]]:
    """Return what an archive tells of a run, line by line, but for what the clock decides."""
    return {
        name: [
            _NUMBERS.sub(rb'"\1":0', _T.sub(rb'"\1":0', _SINCE_1970.sub(rb'"\1":0', line)))
            for line in text.splitlines()
            if not line.startswith(_CLOCKED)
        ]
        for name, text in files.items()
        if not name.endswith(_BESIDE) and not is_source(PurePosixPath(name))
    }


_BESIDE: Final = (".flight.json", ".stacks.txt", ".ends.txt")
_CLOCKED: Final = tuple(
    b'{"kind":"%b"' % kind
    for kind in (b"alive", b"checkpoint", b"done", b"stall", b"source", b"source_file")
)
"""What the watchdog writes when its turn comes."""
_NUMBERS: Final = re.compile(rb'"(wait|ns|bytes|pending)":\d+')
