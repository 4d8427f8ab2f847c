"""Which files belong to which run, and which run is meant.

A run is known by the id in its headers, else by its folder. Processes that never got past
``init_process_group`` have no run id: their files lie in a folder of their own, and go to the
run they would have belonged to.
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
        """When the first of its processes began that were looked at.

        Of a run whose files are empty so far, or for ever, its id tells.
        """
        return min((f.wall for f in self.files if f.wall >= 0), default=_stamp(self.name))


def _stamp(name: str) -> int:
    """When a run began whose id is the tracer's, ns since 1970; before everything if it is not."""
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
    """On what was left out of it."""
    others: tuple[str, ...] = ()
    """Ids of the other runs in the folder."""
    earlier: tuple[str, ...] = ()
    """Ids of the runs that were attempts of the same job before it, the latest last."""


def choose(folder: Folder, files: Sequence[File], run: str | None) -> Choice:
    """The newest run, or the one that ``run`` names.

    Provisional files go to the run that misses their ranks; those that started after every run and
    are missed by none are a run of their own, which never got going: unless the folder is that of
    one run, which is meant whatever lies beside it.

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
        return Choice(PENDING, *_number(stuck or pending))
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
            others, (chosen, notes) = sorted({*others, meant.name}), _number(stuck)
            meant = Run(PENDING, chosen)
    notes += _seconds(folder, meant)
    return Choice(meant.name, chosen, notes, tuple(others), _earlier(meant, runs))


def _seconds(folder: Folder, run: Run) -> list[str]:
    """That there are files of further processes which called themselves a rank of this run."""
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
"""Of a process that found the file of its rank there already, of another process."""


def names_and_folders(files: Sequence[File]) -> Iterator[tuple[str, set[str] | None]]:
    """Yield the ids of all runs, the newest first; what never got going and is newer comes before.

    With each the folders that say all of it: its own, its neighbours' in time, and those of
    provisional files. None: the folders do not tell the runs apart.

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
    """The attempts of a job before the one that is meant, as an elastic launcher counts them."""
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
    """The run that a file of the folder belongs to."""
    for file in files:
        if name in file.segments.names:
            return PENDING if file.pending else _run_id(file)
    return None


def _run_id(file: File) -> str:
    header = file.peek()
    return (header.run if header is not None else None) or PurePosixPath(file.folder).name


def _known_runs(ranked: Sequence[File], run: str | None) -> list[Run]:
    """Every run, the newest last. One file of each folder tells, unless that hides ``run``."""
    runs = _group(_first_of_each_folder(ranked))
    if run is not None and run != PENDING and not any(one.name == run for one in runs):
        # The id may be that of a few files among others'.
        runs = _group(ranked)
    return sorted(runs, key=lambda one: (one.wall, one.name))


def _meant(
    folder: Folder, ranked: Sequence[File], runs: Sequence[Run], run: str | None
) -> tuple[Run, list[str]]:
    """The run that is meant, with the files that are its own, and the ids of the others."""
    named = runs[-1] if run is None else _named(folder, runs, run)
    folders = {file.folder for file in named.files}
    mixed = _group(file for file in ranked if file.folder in folders)
    if run is None:
        meant = max(mixed, key=lambda one: (one.wall, one.name))
    else:
        meant = next((one for one in mixed if one.name == named.name), named)
    return meant, sorted({one.name for one in (*runs, *mixed)} - {meant.name})


def _of_its_time(pending: Sequence[File], meant: Run, runs: Sequence[Run]) -> list[File]:
    """Provisional files that started near a run, and nearer to it than to the ones around it."""
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
    """Provisional files next to a run's own folder."""
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
    for file in nameless:  # of the one run that the others of its folder are of, whatever its name
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
    """Provisional files of processes that started together after everything else."""
    latest = max((file.wall for file in pending), default=-1)
    return [f for f in pending if f.wall > since and latest - f.wall <= _NEAR]


def _gone_on_alone(stuck: Sequence[File], meant: Run) -> list[int]:
    """Ranks whose processes left a run for one more, while others are still in it; none: not so."""
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
    """A run's files, and the provisional ones of ranks that it misses."""
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


def _number(stuck: Sequence[File]) -> tuple[list[File], list[str]]:
    """Provisional files as a run: ranks that are not known are given in order of start."""
    files = sorted(stuck, key=lambda file: (file.wall, file.segments.name))
    taken = {file.rank for file in files}
    nameless = [file for file in files if file.rank is None]
    free = (rank for rank in range(len(files) + len(taken)) if rank not in taken)
    for file, rank in zip(nameless, free, strict=False):
        file.rank = rank
    if not nameless:
        return files, []
    return files, [f"{len(nameless)} files do not say their rank; numbered in order of start"]
