"""Assign files to runs, and choose the run that is meant.

The id in the headers identifies a run; without one, its folder does. Processes that never finished
``init_process_group`` have no run id. Their files are in a separate folder and are assigned to the
run that they would have joined.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath
from typing import Final

from collectrace import words
from collectrace.align.reading import job
from collectrace.align.reading.process_files import (
    MAX_RANKS,
    File,
    list_files,
    place,
    waited,
)
from collectrace.align.reading.source import Folder, open_folder
from collectrace.errors import LogError
from collectrace.log_folder import PENDING, RUN_ID, STAMP

_NEAR: Final = 1800 * 1_000_000_000
"""ns between the starts of processes of one job: schedulers may start them minutes apart."""


@dataclass(slots=True)
class Run:
    """The files of one run."""

    name: str
    files: list[File]

    @property
    def wall(self) -> int:
        """When the first of its examined processes began, ns since 1970.

        If its files are empty, the time is from its id.
        """
        return min((f.wall for f in self.files if f.wall >= 0), default=_stamp(self.name))


def _stamp(name: str) -> int:
    """Return when a run began, from the tracer's run id, ns since 1970; -1 for another id."""
    found = RUN_ID.fullmatch(name)
    if found is None:
        return -1
    try:
        began = datetime.strptime(f"{found[1]}+0000", f"{STAMP}%z")
    except ValueError:
        return -1
    return int(began.timestamp()) * 1_000_000_000


@dataclass(frozen=True, slots=True)
class Choice:
    """The run that is meant."""

    name: str
    """Its id."""
    files: list[File]
    notes: list[str]
    """Notes on files that were ignored."""
    others: tuple[str, ...] = ()
    """Ids of the other runs in the folder."""
    earlier: tuple[str, ...] = ()
    """Ids of the runs that were earlier attempts of the same job, the latest last."""


def choose(folder: Folder, files: Sequence[File], run: str | None) -> Choice:
    """Return the newest run, or the one that ``run`` names.

    Provisional files go to the run that lacks their ranks. If they started after every run and no
    run lacks them, they are a separate run, which never started its work. The exception is the
    folder of a single run, which is meant regardless of files beside it.

    Raises:
        LogError: there is no such run.

    """
    if run is None and folder.file is not None:
        run = _run_of(folder.file, files)
    ranked = [file for file in files if not file.pending]
    pending = [file for file in files if file.pending]
    of_one_run = bool(ranked) and all(file.folder == folder.name for file in ranked) and not pending
    if of_one_run:
        pending = _beside(folder, ranked[0].segments.page)
    runs = _known_runs(ranked, run)
    stuck = _newest_pending(pending, runs[-1].wall if runs else -1)
    if run == PENDING or not runs:
        if not pending:
            raise LogError(_no_such_run(folder, run or "", runs))
        return Choice(PENDING, *_as_run(stuck or pending))
    meant, others = _meant(folder, ranked, runs, run)
    chosen, notes = _fill(meant, _of_its_time(pending, meant, runs))
    is_newer = run is None and not of_one_run
    if is_newer and stuck and not set(map(id, stuck)) & set(map(id, chosen)):
        if gone := _gone_on_alone(stuck, meant):
            notes.append(
                f"{words.ranks(gone)} went on from this run to init_process_group once more, to "
                f"which not all came: --run {PENDING}"
            )
        else:
            others, (chosen, notes) = sorted({*others, meant.name}), _as_run(stuck)
            meant = Run(PENDING, chosen)
    notes += _note_duplicates(folder, meant)
    return Choice(meant.name, chosen, notes, tuple(others), _earlier(meant, runs))


def _note_duplicates(folder: Folder, run: Run) -> list[str]:
    """Return a note on files of further processes that had the same rank in this run."""
    places = {file.folder for file in run.files}
    lying = (place(folder, blob) for blob in folder.files)
    found = [name for where, name in lying if where in places and _SECOND.fullmatch(name)]
    if not found:
        return []
    told = (
        f"{_few(sorted(found))}: further processes that called themselves the same rank, which are "
        "not compared here; align reads such a file by itself"
    )
    return [told]


_SECOND: Final = re.compile(r"rank\d{1,9}\+\d+\.jsonl")
"""A process that found another process's file for its rank."""


def names_and_folders(files: Sequence[File]) -> Iterator[tuple[str, set[str] | None]]:
    """Yield the ids of all runs, the newest first; newer provisional files come before.

    Each has the folders to read for it: its own, those of its neighbours in time, and those of
    provisional files. None: the folders do not separate the runs.

    Raises:
        LogError: some file cannot be read.

    """
    pending = [file for file in files if file.pending]
    runs = _known_runs([file for file in files if not file.pending], None)
    if _newest_pending(pending, runs[-1].wall) if runs else pending:
        yield PENDING, None
    of_run = [{file.folder for file in run.files} for run in runs]
    apart = sum(map(len, of_run)) == len(set().union(*of_run))
    for n in reversed(range(len(runs))):
        near = set().union(*of_run[max(0, n - 1) : n + 2], (file.folder for file in pending))
        yield runs[n].name, near if apart else None


def _earlier(meant: Run, runs: Sequence[Run]) -> tuple[str, ...]:
    """Return the earlier attempts of a job, as an elastic launcher counts them."""
    header = next((f.header for f in meant.files if f.header is not None), None)
    wanted = job.restarts(header) - 1 if header is not None else -1
    found: list[str] = []
    for one in sorted(runs, key=lambda one: one.wall, reverse=True):
        before = next((f.header for f in one.files if f.header is not None), None)
        if header is None or before is None or wanted < 0 or not before.wall < header.wall:
            continue
        if (job.restarts(before), job.launched_as(before)) == (wanted, job.launched_as(header)):
            found.append(one.name)
            wanted -= 1
    return tuple(reversed(found))


def _run_of(name: str, files: Sequence[File]) -> str | None:
    for file in files:
        if name in file.segments.names:
            return PENDING if file.pending else _run_id(file)
    return None


def _run_id(file: File) -> str:
    header = file.peek()
    return (header.run if header is not None else None) or PurePosixPath(file.folder).name


def _known_runs(ranked: Sequence[File], run: str | None) -> list[Run]:
    """Return all runs, the newest last; reads one file per folder unless that misses ``run``."""
    runs = _group(_first_of_each_folder(ranked))
    if run is not None and run != PENDING and not any(one.name == run for one in runs):
        # The id may be that of a few files among others.
        runs = _group(ranked)
    return sorted(runs, key=lambda one: (one.wall, one.name))


def _meant(
    folder: Folder, ranked: Sequence[File], runs: Sequence[Run], run: str | None
) -> tuple[Run, list[str]]:
    """Return the meant run with only its own files, and the ids of the others."""
    named = runs[-1] if run is None else _named(folder, runs, run)
    folders = {file.folder for file in named.files}
    mixed = _group(file for file in ranked if file.folder in folders)
    if run is None:
        meant = max(mixed, key=lambda one: (one.wall, one.name))
    else:
        meant = next((one for one in mixed if one.name == named.name), named)
    return meant, sorted({one.name for one in (*runs, *mixed)} - {meant.name})


def _of_its_time(pending: Sequence[File], meant: Run, runs: Sequence[Run]) -> list[File]:
    """Return provisional files that started near a run, and nearer to it than to its neighbours."""
    after = min((one.wall for one in runs if one.wall > meant.wall), default=None)
    before = max((one.wall for one in runs if one.wall < meant.wall), default=-1)
    return [
        file
        for file in pending
        if before < file.wall
        and (after is None or file.wall < after)
        and abs(file.wall - meant.wall) <= _NEAR
    ]


def _beside(folder: Folder, page: int) -> list[File]:
    if folder.parent is None:
        return []
    path = f"{folder.parent.rstrip('/')}/{PENDING}"
    try:
        return list_files(open_folder(path, depth=0), page)
    except LogError:
        return []


def _first_of_each_folder(files: Iterable[File]) -> list[File]:
    first: dict[str, File] = {}
    for file in files:
        known = first.get(file.folder)
        if known is None or known.peek() is None:
            first[file.folder] = file
    return list(first.values())


def _group(files: Iterable[File]) -> list[Run]:
    runs: dict[str, Run] = {}
    nameless = []
    for file in files:
        if file.peek() is None:
            nameless.append(file)
            continue
        name = _run_id(file)
        runs.setdefault(name, Run(name, [])).files.append(file)
    beside: dict[str, set[str]] = {}
    for one in runs.values() if nameless else ():
        for file in one.files:
            beside.setdefault(file.folder, set()).add(one.name)
    for file in nameless:  # of the only run of the other files in the folder, if there is one
        ids = beside.setdefault(file.folder, set())
        name = next(iter(ids)) if len(ids) == 1 else _run_id(file)
        ids.add(name)
        runs.setdefault(name, Run(name, [])).files.append(file)
    return list(runs.values())


def _named(folder: Folder, runs: Sequence[Run], run: str) -> Run:
    fitting = [one for one in runs if one.name == run] or [
        one
        for one in runs
        if one.name.startswith(run) or any(PurePosixPath(f.folder).name == run for f in one.files)
    ]
    if len(fitting) != 1:
        raise LogError(_no_such_run(folder, run, fitting or runs))
    return fitting[0]


def _no_such_run(folder: Folder, run: str, runs: Sequence[Run]) -> str:
    names = _few([one.name for one in reversed(runs)]) if runs else "none"
    return f"no single run {run!r} in {folder.label}. Available: {names}."


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _newest_pending(pending: Sequence[File], since: int) -> list[File]:
    """Return provisional files of processes that started together after everything else."""
    latest = max((file.wall for file in pending), default=-1)
    return [f for f in pending if f.wall > since and latest - f.wall <= _NEAR]


def _gone_on_alone(stuck: Sequence[File], meant: Run) -> list[int]:
    """Return ranks that left a run for a new one while others stay; empty if that is not so."""
    ranks = {_process(file): file.rank for file in meant.files}
    gone = [ranks.get(_process(file)) for file in stuck]
    left = [file for file in meant.files if file.rank not in gone]
    if None in gone or not any(waited(file) for file in left):
        return []
    return sorted(rank for rank in gone if rank is not None)


def _process(file: File) -> tuple[str, int] | None:
    header = file.peek()
    return (header.host, header.pid) if header is not None else None


def _fill(meant: Run, near: Sequence[File]) -> tuple[list[File], list[str]]:
    """Return a run's files, and the provisional files of ranks that it lacks."""
    chosen = list(meant.files)
    present = {file.rank for file in chosen}
    sizes = [f.header.world_size for f in chosen if f.header is not None and f.header.world_size]
    missing = set(range(min(max(sizes, default=0), MAX_RANKS))) - present
    nameless = [file for file in near if file.rank is None]
    notes = []
    for file in near:
        if file.rank is not None and file.rank not in present:
            present.add(file.rank)
            missing.discard(file.rank)
            chosen.append(file)
    if len(nameless) == 1 and len(missing) == 1:
        nameless[0].rank = missing.pop()
        chosen += nameless
    elif nameless and missing:
        notes.append(
            f"{len(nameless)} provisional files do not say their rank and are left out: "
            + _few([file.segments.name for file in nameless])
        )
    return chosen, notes


def _as_run(stuck: Sequence[File]) -> tuple[list[File], list[str]]:
    """Return provisional files as a run, with unknown ranks numbered in order of start."""
    files = sorted(stuck, key=lambda file: (file.wall, file.segments.name))
    taken = {file.rank for file in files}
    nameless = [file for file in files if file.rank is None]
    free = (rank for rank in range(len(files) + len(taken)) if rank not in taken)
    for file, rank in zip(nameless, free, strict=False):
        file.rank = rank
    if not nameless:
        return files, []
    return files, [f"{len(nameless)} files do not say their rank; numbered in order of start"]
