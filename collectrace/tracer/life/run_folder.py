"""What rank 0 does when a run begins: print where it is recorded, and remove old runs."""

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
"""Files that the tracer writes to a run's folder, and to its folder of sources. A folder that holds
any other file is kept."""

_TAIL: Final = 64 << 10
"""Bytes at a file's end that are searched for its last line."""

_FORGOTTEN: Final = 3 * 86_400
"""Seconds without a write after which a file counts as finished. It is that long because a process
may hold the GIL over a weekend."""


def begin(config: Config, recorder: Recorder, *, first: bool) -> None:
    """Announce a run's new folder, and remove old runs. Only rank 0 may call this.

    ``first``: it is the process's first run, and so is announced on standard error.
    """
    folder = recorder.writer.folder
    if folder is None:
        return  # it cannot be written to, and a warning was logged
    if first and config.announce:
        announce(folder)
    if config.keep_runs:
        # In a thread: thousands of files on a network file system take a while.
        threading.Thread(
            target=_make_room, args=(folder, config.keep_runs, recorder), daemon=True,
            name="collectrace-keep-runs",
        ).start()  # fmt: skip


def _make_room(folder: Path, keep: int, recorder: Recorder) -> None:
    try:
        with contextlib.suppress(OSError):  # without the folder there is nothing to remove
            removed = remove_old(folder.parent, keep, folder.name)
            if removed and recorder.active:
                recorder.write(records.Removed(runs=removed))
    except Exception as problem:
        recorder.count_beside(problem, "removing old runs")


def remove_old(log_dir: Path, keep: int, current: str) -> list[str]:
    """Remove the oldest runs of a folder, so that ``keep`` remain; return the removed ids.

    The ``current`` run counts as one of them. Runs that may still be written to are kept, too, and
    so are folders with other files or with another kind of name.
    """
    names = sorted(
        {current}  # the mover of a spool may not have created it yet
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
        if not _all_match(_OURS, files) or not _all_match(_TEXTS, texts or ()):
            return False
        last: dict[str, Path] = {}  # the segment being written, by rank
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
        return False  # another job is removing it, or it belongs to another user
    return True


def _all_match(names: re.Pattern[str], files: Iterable[Path]) -> bool:
    """Return whether all are regular files with such names."""
    return all(
        names.fullmatch(file.name) and file.is_file() and not file.is_symlink() for file in files
    )


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _segment(file: Path) -> tuple[str, int]:
    """Return the rank part of a file's name, and the ordinal of the segment (0: the first)."""
    rank, *rest = file.name.split(".")
    return rank, int(rest[0]) if rest[0].isdecimal() else 0


def _is_over(file: Path) -> bool:
    """Return whether a rank's last segment is finished: by its last line, or by its age."""
    if time.time() - file.stat().st_mtime > _FORGOTTEN:
        return True
    with file.open("rb") as stream:
        stream.seek(max(0, stream.seek(0, 2) - _TAIL))
        last = stream.read().rstrip(b"\n").rpartition(b"\n")[2]
    return last.startswith(b'{"kind":"exit"')


def unused(path: Path) -> Path:
    """Return this path of a rank file, or a free one beside it if it exists already.

    Two processes of a run may claim the same rank. The files of both are evidence.
    """
    for n in range(1, 100):
        if not path.exists():
            return path
        path = path.with_name(f"{path.stem.partition('+')[0]}+{n}.jsonl")
    return path
