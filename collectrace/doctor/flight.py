"""PyTorch's Flight Recorder: its variables, and its dumps on this machine.

What was read, and where: torch 2.13, ``FlightRecorder.hpp``, ``FlightRecorder.cpp`` (``getWriter``)
and ``ProcessGroupNCCL.hpp``; torch 2.3 to 2.6 where they differ.

=================================== ============================= ===============================
variable                            older name, still understood  when it is not set
=================================== ============================= ===============================
``TORCH_FR_BUFFER_SIZE``            ``.._NCCL_TRACE_BUFFER_SIZE`` 2000 entries; to 2.6: 0, off
``TORCH_FR_DUMP_TEMP_FILE``         ``.._NCCL_DEBUG_INFO_         ``comm_lib_trace_rank_`` in
                                    TEMP_FILE``                   ``$XDG_CACHE_HOME/torch``, else
                                                                  ``~/.cache/torch``; to 2.6:
                                                                  ``/tmp/nccl_trace_rank_``
``TORCH_NCCL_DUMP_ON_TIMEOUT``                                    on; to 2.6: off
``TORCH_NCCL_DEBUG_INFO_PIPE_FILE``                               no pipe
=================================== ============================= ===============================

The rank follows the name of the file. NCCL's watchdog writes a dump after a timeout, or on a
request through the pipe. gloo records (from 2.9 on), but never writes one by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from collectrace.doctor.processes import Process

PREFIXES: Final = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
SIZES: Final = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
ON_TIMEOUT: Final = "TORCH_NCCL_DUMP_ON_TIMEOUT"
PIPE: Final = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"

NEW_NAMES: Final = (2, 13)
"""The torch whose sources have the newer names; all versions know the older ones."""

_ON_BY_DEFAULT: Final = (2, 13)
_OFF_BY_DEFAULT: Final = (2, 6)
"""The last torch that is off by default; nothing is claimed about versions between the two."""

_OLD_DEFAULT: Final = "/tmp/nccl_trace_rank_"
_NEW_DEFAULT: Final = "torch/comm_lib_trace_rank_"

_USUAL_NAME: Final = re.compile(r"(?:nccl_|comm_lib_)?trace_rank_?(\d{1,9})(?:\.\w+)?")
_MOST: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Dumps:
    """Dumps with one name, except for the rank."""

    prefix: str
    """Their name without the rank, such as ``/tmp/nccl_trace_rank_``."""
    ranks: tuple[int, ...]
    newest: float
    """When the newest was written, seconds since 1970."""


def prefixes(processes: Iterable[Process], environment: Mapping[str, str]) -> list[str]:
    """Return the prefixes of dumps: of the processes, of this shell, and the defaults."""
    found = []
    for one in processes:
        inside = one.folder or Path()
        found += [str(inside / said) for said in map(one.environment.get, PREFIXES) if said]
        found.append(_default(one.environment))
    found += [said for said in map(environment.get, PREFIXES) if said]
    return list(dict.fromkeys([*found, _default(environment), _OLD_DEFAULT]))


def _default(environment: Mapping[str, str]) -> str:
    home = environment.get("HOME", "/tmp")
    cache = environment.get("XDG_CACHE_HOME") or f"{home}/.cache"
    return f"{cache}/{_NEW_DEFAULT}"


def dumps(where: Iterable[str], folder: Path | None = None) -> list[Dumps]:
    """Return the dumps that exist, newest first.

    Args:
        where: prefixes of files.
        folder: a folder in which files with the usual names count, too.

    """
    names: dict[str, dict[int, float]] = {}
    for prefix in where:
        above, _, stem = prefix.rpartition("/")
        for path, rank in _listed(Path(above or "."), re.compile(rf"{re.escape(stem)}(\d{{1,9}})")):
            _add(names, prefix, path, rank)
    if folder is not None:
        for path, rank in _listed(folder, _USUAL_NAME):
            stem = str(path)[: str(path).rindex(str(rank))]
            _add(names, stem, path, rank)
    found = [
        Dumps(prefix, tuple(sorted(written)), max(written.values()))
        for prefix, written in names.items()
    ]
    return sorted(found, key=lambda one: -one.newest)


def _listed(folder: Path, name: re.Pattern[str]) -> list[tuple[Path, int]]:
    try:
        files = [(path, name.fullmatch(path.name)) for path in folder.iterdir()]
    except OSError:
        return []
    return [(path, int(found[1])) for path, found in files if found and int(found[1]) < _MOST]


def _add(names: dict[str, dict[int, float]], prefix: str, path: Path, rank: int) -> None:
    try:
        if path.is_file() and path.stat().st_size:
            names.setdefault(prefix, {})[rank] = path.stat().st_mtime
    except OSError:
        return


def pipes(processes: Iterable[Process]) -> list[Path]:
    """Return the pipes that make a rank dump when written to (``DumpPipe``)."""
    found = []
    for one in processes:
        prefix = one.environment.get(PIPE)
        if prefix and one.rank is not None:
            path = Path(one.folder or ".", f"{prefix}{one.rank}.pipe")
            if path.is_fifo():
                found.append(path)
    return found


def is_recording(one: Process) -> bool | None:
    """Return whether a process records, by its variables and its torch; None: not known."""
    for name in SIZES:
        text = one.environment.get(name)
        if text is not None:
            return text.strip().lstrip("-").isdigit() and int(text) > 0
    version = version_of(one.torch_version)
    if version is None or _OFF_BY_DEFAULT < version < _ON_BY_DEFAULT:
        return None
    return version >= _ON_BY_DEFAULT


def version_of(text: str) -> tuple[int, int] | None:
    """Return ``(2, 13)`` for ``2.13.0+cpu``."""
    found = re.match(r"(\d{1,4})\.(\d{1,4})", text)
    return (int(found[1]), int(found[2])) if found is not None else None


def exports(version: tuple[int, int] | None) -> list[str]:
    """Return shell commands for the next run, with the names that this torch knows."""
    is_new = version is not None and version >= NEW_NAMES
    size, prefix = SIZES[not is_new], PREFIXES[not is_new]
    return [
        f"export {size}=2000 {ON_TIMEOUT}=1",
        f"export {prefix}=$PWD/nccl_trace_rank_",
    ]
