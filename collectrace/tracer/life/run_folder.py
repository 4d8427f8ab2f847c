"""What one rank does for all as a run begins: says where it records, and makes room for it."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from collectrace import records
from collectrace.config import Config
from collectrace.log_folder import PART, RUN_ID, SOURCE_FILE, SOURCES
from collectrace.tracer.life.telling import announce
from collectrace.tracer.record.recorder import Recorder

_OURS: Final = re.compile(
    r"rank\d+(\+\d+)?(\.\d+)?\.(jsonl|stacks\.txt|ends\.txt|flight\.json)"
    rf"|verdict\.\d+\.[a-z]+|{PART.pattern}"
)
_TEXTS: Final = re.compile(rf"{SOURCE_FILE.pattern}|{PART.pattern}")
"""Files that the tracer writes, there and in the folder of sources; a folder that holds anything
else is kept."""

_TAIL: Final = 64 << 10
"""Bytes at a file's end in which its last line is looked for."""

_FORGOTTEN: Final = 3 * 86_400
"""Seconds without a word after which a file without a last line is not written to any more. A
process may hold the GIL over a week end; a run that is in doubt is kept."""


def begin(config: Config, recorder: Recorder, *, first: bool) -> None:
    """A run's folder was begun; to be called by rank 0 only.

    ``first``: it is the process's first run, of which a person is told on standard error.
    """
    folder = recorder.writer.folder
    if folder is None:
        return  # it cannot be written to, and a warning has said so
    if first and config.announce:
        announce(folder)
    if config.keep_runs:
        # Thousands of files on a network's disk take a while, and the job is to go on.
        threading.Thread(
            target=_make_room, args=(folder, config.keep_runs, recorder), daemon=True,
            name="collectrace-keep-runs",
        ).start()  # fmt: skip


def _make_room(folder: Path, keep: int, recorder: Recorder) -> None:
    try:
        with contextlib.suppress(OSError):  # gone, or no folder: nothing is to be removed
            removed = remove_old(folder.parent, keep, folder.name)
            if removed and recorder.active:
                recorder.write(records.Removed(runs=removed))
    except Exception as problem:
        recorder.count_beside(problem, "removing old runs")


def remove_old(log_dir: Path, keep: int, current: str) -> list[str]:
    """Remove the oldest runs of a folder beyond ``keep``, the ``current`` one counted.

    A run that may still be written to stays, and so does a folder with anything else in it, or
    with a name that is not the tracer's. The ids of those removed.
    """
    names = sorted(
        {current}  # a spool may not have come so far
        | {
            entry.name
            for entry in log_dir.iterdir()
            if RUN_ID.fullmatch(entry.name) and _is_folder(entry)
        }
    )
    beyond = names[: max(0, len(names) - keep)]
    return [name for name in beyond if name != current and _remove(log_dir / name)]


def _remove(folder: Path) -> bool:
    try:
        files = list(folder.iterdir())
        sources = folder / SOURCES
        texts = list(sources.iterdir()) if sources in files and _is_folder(sources) else None
        if texts is not None:
            files.remove(sources)
        if not _are(_OURS, files) or not _are(_TEXTS, texts or ()):
            return False
        last: dict[str, Path] = {}  # per rank the segment that is written to
        for file in sorted(files, key=_segment):
            if file.suffix == ".jsonl":
                last[file.name.partition(".")[0]] = file
        if not all(map(_is_over, last.values())):
            return False
        for file in (*(texts or ()), *files):
            file.unlink()
        if texts is not None:
            sources.rmdir()
        folder.rmdir()
    except OSError:
        return False  # another job removes it, or it is somebody else's
    return True


def _are(names: re.Pattern[str], files: Iterable[Path]) -> bool:
    """Whether all are regular files that bear such names."""
    return all(
        names.fullmatch(file.name) and file.is_file() and not file.is_symlink() for file in files
    )


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _segment(file: Path) -> tuple[str, int]:
    """Rank, and ordinal of a segment: 0 for the first, whose name has none."""
    rank, *rest = file.name.split(".")
    return rank, int(rest[0]) if rest[0].isdecimal() else 0


def _is_over(file: Path) -> bool:
    """Whether nothing is to come to a rank's last segment.

    Its last line says so, or it is long forgotten.
    """
    if time.time() - file.stat().st_mtime > _FORGOTTEN:
        return True
    with file.open("rb") as stream:
        stream.seek(max(0, stream.seek(0, 2) - _TAIL))
        last = stream.read().rstrip(b"\n").rpartition(b"\n")[2]
    return last.startswith(b'{"kind":"exit"')


def unused(path: Path) -> Path:
    """Return this path of a rank file, or one beside it if another process has taken it.

    Two processes may call themselves the same rank of one run: the file of each is evidence.
    """
    for n in range(1, 100):
        if not path.exists():
            return path
        path = path.with_name(f"{path.stem.partition('+')[0]}+{n}.jsonl")
    return path
