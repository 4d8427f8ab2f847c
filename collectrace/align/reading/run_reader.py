"""A folder of rank files, as evidence of one run. Tolerant: a bad record costs one record."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from collectrace.align.reading import groups, stack_dumps
from collectrace.align.reading.evidence import Evidence
from collectrace.align.reading.processes import still_exists
from collectrace.align.reading.rank_log import FileLog
from collectrace.align.reading.rank_reader import Reading
from collectrace.align.reading.runs import File, choose, is_rank, list_files
from collectrace.align.reading.segments import PAGE
from collectrace.align.reading.source import open_folder
from collectrace.align.reading.vocabulary import Vocabulary
from collectrace.errors import NotThere
from collectrace.records import FORMAT, Header

SMALL: Final = 64 << 20
"""Bytes in all up to which logs are read from end to end: that takes a second."""

_MOST_KEPT: Final = 4_000_000
"""Records remembered from one look to the next: some hundred megabytes."""

Progress = Callable[[int, int], None]
"""Told how many bytes are done, of how many."""

_Identity = tuple[str, int, int, int]
"""What tells a process's log from another that came to bear its name."""


def read(
    path: str | os.PathLike[str],
    run: str | None = None,
    full: bool = False,
    *,
    progress: Progress | None = None,
    small: int = SMALL,
    page: int = PAGE,
) -> Evidence:
    """Read a run: see :class:`Reader`."""
    return Reader(path, run, full, small=small, page=page).read(progress)


class Reader:
    """Reads a run, and later what has been added to it.

    ``path`` is a log_dir, a run's own folder, or a URL of either that fsspec understands. The run
    is the newest below it, or the one that ``run`` names. Logs of at most ``small`` bytes in all
    are read from end to end, and so are all with ``full``; larger ones at both ends, ``page``
    bytes at a time where something is looked up.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        run: str | None = None,
        full: bool = False,
        *,
        small: int = SMALL,
        page: int = PAGE,
    ) -> None:
        self._path, self._run, self._full = path, run, full
        self._small, self._page = small, page
        self._vocabulary = Vocabulary()
        self._kept: dict[_Identity, Reading] = {}

    def read(self, progress: Progress | None = None) -> Evidence:
        """The run as its files tell it now; what an earlier call has read is not read again.

        Raises:
            NotThere: no folder, no rank files in it, or none with a record: not yet, perhaps.
            LogError: there is nothing that can be used; the message says what to do.

        """
        evidence = self._read(progress)
        exists = {rank: still_exists(log) for rank, log in evidence.logs.items()}
        if any(exists[rank] is False and log.exit is None for rank, log in evidence.logs.items()):
            # It may have come to its end after its file was read, and before it was looked for.
            evidence = self._read()
        return replace(evidence, still_exists=lambda log: exists.get(log.rank))

    def _read(self, progress: Progress | None = None) -> Evidence:
        folder = open_folder(self._path)
        files = list_files(folder, self._page)
        if not files:
            raise NotThere(
                f"{folder.label} holds no rank files (rank00000.jsonl, ...); give the run's log_dir"
            )
        name, chosen, notes = choose(folder, files, self._run)
        chosen, doubled = _one_per_rank(chosen)
        notes += doubled
        logs, unusable = self._open(chosen, progress)
        notes += unusable
        if not logs:
            raise NotThere(
                f"no file of run {name} in {folder.label} holds a record that can be read"
            )
        census = groups.identify(logs)
        for rank, log in logs.items():
            log.settle(census.names.get(rank, {}), census.shifts.get(rank, {}))
        world, skew = _world_size(logs.values())
        return Evidence(
            run=name,
            world_size=world,
            logs=logs,
            missing=tuple(rank for rank in range(world) if rank not in logs),
            groups=census.groups,
            conflicts=tuple(census.conflicts),
            damaged_lines=sum(log.damaged for log in logs.values()),
            notes=(*notes, *skew, *census.notes, *_newer(logs.values())),
        )

    def _open(
        self, files: Sequence[File], progress: Progress | None
    ) -> tuple[dict[int, FileLog], list[str]]:
        total = sum(file.tape.size for file in files)
        scanning = self._full or total <= self._small
        done = 0

        def step(count: int) -> None:
            nonlocal done
            done += count
            if progress is not None:
                progress(done, total)

        if not scanning and sum(r.intake.records for r in self._kept.values()) > _MOST_KEPT:
            # A job that is followed for days: its ends tell as much as its whole length.
            self._kept, self._vocabulary = {}, Vocabulary()
        before, self._kept = self._kept, {}
        wall = min((file.wall for file in files if file.header is not None), default=0)
        logs, notes = {}, []
        for file in files:
            assert file.rank is not None
            # A file without a header gets the others' clock: close enough to order what it holds.
            header = file.header or Header(format=FORMAT, rank=file.rank, host="", pid=0, wall=wall)
            identity = (file.tape.name, file.rank, header.pid, header.t)
            reading = before.get(identity)
            if reading is None or not reading.grow(file.tape):
                reading = Reading(file.tape, file.rank, self._vocabulary)
                if not scanning:
                    reading.skim()
                    step(file.tape.size)
            if scanning:
                reading.scan(step)
            self._kept[identity] = reading
            log = FileLog(
                reading,
                header=header,
                provisional=file.pending,
                remains=stack_dumps.read(file.beside),
            )
            if not log.records:
                notes.append(
                    f"{file.tape.name} holds no record that can be read; "
                    f"rank {file.rank} is missing"
                )
                continue
            if file.header is None:
                notes.append(f"{file.tape.name} has no header; its clock is a guess")
            logs[file.rank] = log
        return logs, notes


def _one_per_rank(files: Sequence[File]) -> tuple[list[File], list[str]]:
    """The file to take for each rank: where there are several, the newest and longest."""
    best: dict[int, File] = {}
    notes = []
    for file in sorted(files, key=lambda file: (file.wall, file.tape.size), reverse=True):
        if file.rank is None:
            continue
        kept = best.setdefault(file.rank, file)
        if kept is not file:
            notes.append(
                f"rank {file.rank} left two files: {kept.tape.name} counts, not {file.tape.name}"
            )
    return [best[rank] for rank in sorted(best)], notes


def _world_size(logs: Iterable[FileLog]) -> tuple[int, list[str]]:
    told: Counter[int] = Counter()
    highest = 0
    for log in logs:
        highest = max(highest, log.rank)
        size = log.header.world_size
        if size is not None and is_rank(size - 1):
            told[size] += 1
    notes = []
    if len(told) > 1:
        sizes = ", ".join(map(str, sorted(told)))
        notes.append(f"ranks disagree about the world size: {sizes}")
    usual = max(told, key=lambda size: (told[size], size), default=0)
    return max(usual, highest + 1), notes


def _newer(logs: Iterable[FileLog]) -> list[str]:
    newest = max((log.header.format for log in logs), default=FORMAT)
    if newest <= FORMAT:
        return []
    return [f"written in format {newest}, this collectrace knows {FORMAT}; a newer one reads more"]
