"""Read a folder of rank files as the evidence of one run. A bad record costs only itself."""

from __future__ import annotations

import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Final

from collectrace import words
from collectrace.align.reading import device_side, groups, source, spooled, spread, stack_dumps
from collectrace.align.reading.evidence import RunEvidence
from collectrace.align.reading.group_names import GroupNames
from collectrace.align.reading.groups import RunGroups
from collectrace.align.reading.process_files import File, is_rank, list_files
from collectrace.align.reading.processes import is_over, still_exists
from collectrace.align.reading.rank_log import RankLog
from collectrace.align.reading.rank_reader import RankReader
from collectrace.align.reading.runs import Choice, choose, names_and_folders
from collectrace.align.reading.segments import PAGE, Segments
from collectrace.align.reading.source import Folder, open_folder
from collectrace.align.reading.source_files import SourceFiles
from collectrace.align.reading.stack_dumps import StackDumps
from collectrace.align.reading.strands import prove
from collectrace.align.reading.vocabulary import Vocabulary
from collectrace.errors import READ_ADVICE, LogError, NotThere, Unreadable
from collectrace.findings import GroupInfo
from collectrace.records import FORMAT, Header

SMALL: Final = 64 << 20
"""Total bytes up to which logs are read from end to end: that takes a second."""

_KILLED_TOGETHER: Final = 0.5
"""Seconds within which processes that were killed together disappear."""

_SMALL_IF_FAR: Final = 4 << 20
"""The same if every byte is requested from a rank."""

_MOST_KEPT: Final = 4_000_000
"""Records kept between two reads: some hundred megabytes."""

OnProgress = Callable[[int, int], None]
"""Called with the bytes that are done, and the total."""

_Identity = tuple[str, int, int, int]
"""Distinguishes a process's log from another that later has the same name."""


def each_run(path: str | os.PathLike[str]) -> Iterator[tuple[str, Folder]]:
    """Yield the id of each run below a folder, the newest first, and a folder to read it from.

    The folder has the files of the run's own folder, of its neighbours', and those that may belong
    to any run.

    Raises:
        LogError: there are no runs, or they cannot be read.

    """
    folder = open_folder(path)
    for name, parts in names_and_folders(_rank_files(folder, PAGE)):
        if parts is None or folder.name in parts:
            yield name, folder
        else:
            yield name, folder.only(parts)


def read(
    path: str | os.PathLike[str] | Folder,
    run: str | None = None,
    full: bool = False,
    *,
    on_progress: OnProgress | None = None,
    small: int = SMALL,
    page: int = PAGE,
    executor: Executor | None = None,
) -> RunEvidence:
    """Read a run: see :class:`RunReader`."""
    reader = RunReader(path, run, full, small=small, page=page, executor=executor)
    return reader.read(on_progress)


class RunReader:
    """Reads a run, and later what has been added to it.

    ``path`` is a log_dir, a run's own folder, a URL of either that fsspec understands, or a file in
    one of these. The run is the newest below it, or the one that ``run`` names. Logs of at most
    ``small`` bytes in all are read from end to end, and with ``full`` all logs. For larger ones it
    reads both ends, and ``page`` bytes at a time for a lookup. An ``executor`` reads the files
    first.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | Folder,
        run: str | None = None,
        full: bool = False,
        *,
        small: int = SMALL,
        page: int = PAGE,
        executor: Executor | None = None,
    ) -> None:
        self._path, self._run, self._full = path, run, full
        self._executor = executor
        self._small, self._page = small, page
        self._vocabulary = Vocabulary()
        self._folder: Folder | None = None
        """A folder that was unpacked: it is opened only once."""
        self._kept: dict[_Identity, RankReader] = {}

    def read(
        self, on_progress: OnProgress | None = None, *, folder: Folder | None = None
    ) -> RunEvidence:
        """Return the run as its files are now; an earlier call's data is not read again.

        ``folder`` is an open folder to read this once instead of the path.

        Raises:
            NotThere: there is no folder, no rank file in it, or none with a record yet.
            LogError: nothing can be used; the message says what to do.

        """
        evidence = self._read(on_progress, folder)
        if evidence.is_live:
            # The ranks have answered just now. If one exits a moment later, its last records can no
            # longer be requested: so its absence proves nothing.
            return replace(evidence, still_exists=lambda _: True)
        exists = {rank: still_exists(log) for rank, log in evidence.logs.items()}
        if any(exists[rank] is False and log.exit is None for rank, log in evidence.logs.items()):
            if any(exists.values()):
                # The processes of a killed job do not all disappear at once.
                time.sleep(_KILLED_TOGETHER)
                exists = {rank: still_exists(log) for rank, log in evidence.logs.items()}
            # A process may have written its end after its file was read.
            evidence = self._read(None, folder)
        cut = {r for r, log in evidence.logs.items() if log.torn and is_over(log, exists.get(r))}
        return replace(evidence, cut=frozenset(cut), still_exists=lambda log: exists.get(log.rank))

    def _read(self, on_progress: OnProgress | None, folder: Folder | None) -> RunEvidence:
        folder = folder or self._folder or self._open_folder()
        if folder.is_far:
            self._small = min(self._small, _SMALL_IF_FAR)
        files = _rank_files(folder, self._page)
        choice = choose(folder, files, self._run)
        chosen, doubled, disputed = _one_per_rank(choice.files)
        opened, unusable, unreadable = self._open(chosen, on_progress)
        if not opened and any(unreadable.values()):
            rank, why = next(iter(unreadable.items()))
            raise Unreadable(f"the file of rank {rank} in {folder.label}", why, READ_ADVICE)
        if not opened:
            within = choice.name == Path(folder.label).name
            run = folder.label if within else f"run {choice.name} in {folder.label}"
            raise NotThere(f"{run} holds no readable record.{_instead(choice)}")
        found = _groups(opened)
        if found.undecided:
            for rank in found.undecided:
                opened[rank].reader.scan()
            found = _groups(opened)
        notes = [*folder.notes, *choice.notes, *doubled, *unusable]
        return _evidence(choice, opened, found, notes, folder, unreadable, disputed)

    def _open_folder(self) -> Folder:
        folder = self._path if isinstance(self._path, Folder) else open_folder(self._path)
        if folder.is_fixed:
            self._folder = folder
        return folder

    def _open(
        self, files: Sequence[File], on_progress: OnProgress | None
    ) -> tuple[dict[int, _Opened], list[str], dict[int, str]]:
        """Read the files by rank; return notes also, and why other files cannot be read.

        The reason is empty for a file without a record.
        """
        total = sum(file.segments.size for file in files)
        scanning = self._full or total <= self._small
        done = 0

        def step(count: int) -> None:
            nonlocal done
            done += count
            if on_progress is not None:
                on_progress(done, total)

        if not scanning and sum(r.records.lines for r in self._kept.values()) > _MOST_KEPT:
            # If a job is followed for days, the ends of its logs suffice.
            self._kept, self._vocabulary = {}, Vocabulary()
        before, self._kept = self._kept, {}
        wall = min((file.wall for file in files if file.header is not None), default=0)
        opened, notes, unreadable = {}, [], dict[int, str]()
        found = []
        for file in files:
            # A file without a header gets the others' clock: close enough to order what it holds.
            header = file.header or Header(
                format=FORMAT, rank=_rank(file), host="", pid=0, wall=wall
            )
            identity = (file.segments.name, _rank(file), header.pid, header.t)
            reader = before.get(identity)
            is_known = reader is not None and reader.grow(file.segments)
            found.append((file, header, identity, reader if is_known else None))
        parts = [
            spread.Part(file.segments, _rank(file), file.pending, scanning)
            for file, _, _, known in found
            if known is None
        ]
        new = spread.read(parts, self._vocabulary, self._executor, step)
        for file, header, identity, known in found:
            rank, reader = _rank(file), known or next(new)
            if known is not None and (scanning or known.records.failures):
                known.scan(step)
            if identity not in before and "flight" in file.beside:
                note = device_side.complete(reader.records, header, file.beside["flight"])
                notes += [note] if note is not None else []
            lost = file.segments.unreadable
            if not reader.records.lines:
                unreadable[rank] = next(iter(lost.values()), "")
                continue
            notes += [
                f"{name} cannot be read: {why}. Its records are missing."
                for name, why in lost.items()
            ]
            if not lost:  # otherwise it may be readable at the next read
                self._kept[identity] = reader
            if file.header is None:
                notes.append(f"{file.segments.name} has no header; its clock is a guess")
            opened[rank] = _Opened(reader, header, stack_dumps.read(file.beside, header.cwd))
        return opened, notes, unreadable


def _rank(file: File) -> int:
    assert file.rank is not None
    return file.rank


def _rank_files(folder: Folder, page: int) -> list[File]:
    files = list_files(folder, page)
    if not files:
        blocked = source.blocked(Path(folder.label))
        if blocked is not None:
            raise NotThere(
                f"{blocked} may not be read by this user. Run as its owner, or record with "
                "COLLECTRACE_SHARED=1."
            )
        raise NotThere(
            f"{folder.label} holds no rank files (rank00000.jsonl, ...). Give the run's log_dir; "
            "for a job that was not traced, set COLLECTRACE=1 or call collectrace.enable()."
        )
    return files


@dataclass(frozen=True, slots=True)
class _Opened:
    """One rank's files, read."""

    reader: RankReader
    header: Header
    """Replaces an unreadable header."""
    stack_dumps: StackDumps

    def log(self, names: GroupNames) -> RankLog:
        return RankLog(self.reader, self.header, names, self.stack_dumps)


def _groups(opened: Mapping[int, _Opened]) -> RunGroups:
    return groups.identify({rank: one.reader for rank, one in opened.items()})


def _evidence(
    choice: Choice,
    opened: Mapping[int, _Opened],
    found: RunGroups,
    notes: Sequence[str],
    folder: Folder,
    unreadable: Mapping[int, str],
    disputed: Collection[int],
) -> RunEvidence:
    prove(chain for one in opened.values() if one.reader.scanned for chain in one.reader.chains())
    logs: dict[int, RankLog] = {rank: one.log(found.of(rank)) for rank, one in opened.items()}
    world, skew = _world_size(logs.values(), found.groups.values())
    absent = world - len(logs)
    if absent > MOST_MISSING:
        skew.append(f"{absent - MOST_MISSING:,} further ranks left no file; they are not listed")

    def read_whole(ranks: Collection[int]) -> RunEvidence:
        for rank in ranks:
            opened[rank].reader.scan()
        again = _groups(opened)
        return _evidence(choice, opened, again, notes, folder, unreadable, disputed)

    recorded = {rank: one.reader.records for rank, one in opened.items()}
    missing = tuple(islice((rank for rank in range(world) if rank not in logs), MOST_MISSING))
    return RunEvidence(
        run=choice.name,
        world_size=world,
        logs=logs,
        missing=missing,
        unreadable={rank: why for rank, why in unreadable.items() if rank in missing},
        disputed=frozenset(disputed),
        other_runs=choice.others,
        earlier=choice.earlier,
        is_live=folder.is_far,
        groups=found.groups,
        conflicts=tuple(found.conflicts),
        without_members=frozenset(found.without_members),
        source_files=SourceFiles(recorded, folder.files, folder.texts),
        damaged_lines=sum(log.damaged for log in logs.values()),
        notes=tuple(
            dict.fromkeys(
                [
                    *notes,
                    *skew,
                    *found.notes,
                    *_newer(logs.values()),
                    *_unfamiliar(logs.values()),
                    *_imported(logs.values()),
                    *spooled.notes(logs.values()),
                    *_damaged(logs.values()),
                ]
            )
        ),
        read_whole=read_whole,
    )


def _damaged(logs: Collection[RankLog]) -> Iterator[str]:
    """Yield in whose files how many lines could not be read."""
    if harmed := [log for log in logs if log.damaged]:
        lines = words.counted(sum(log.damaged for log in harmed), "line")
        first = next((one for log in harmed if (one := log.first_damaged)), None)
        at = f" ({first[0]}, line {first[1]})" if first else ""
        who = words.upper(words.ranks(log.rank for log in harmed))
        yield f"{who}: {lines} could not be read{at}."


MOST_MISSING: Final = 10_000
"""The limit of listed ranks without a file: a header may name a world of a million."""


def _instead(choice: Choice) -> str:
    """Return what to do if a run is empty. Another run is suggested, never chosen silently."""
    if not choice.others:
        return (
            " Its files are empty or damaged: wait if the job has just begun, "
            "otherwise copy them again."
        )
    return f" The disk was full, or it has just begun: try --run {choice.others[-1]}."


def _one_per_rank(files: Sequence[File]) -> tuple[list[File], list[str], set[int]]:
    """Return the file of each rank; of several, the newest and longest counts.

    Return notes also, and the ranks with files that contradict each other.
    """
    best: dict[int, File] = {}
    notes, disputed = [], set()
    for file in sorted(files, key=lambda file: (file.wall, file.segments.size), reverse=True):
        if file.rank is None:
            continue
        kept = best.setdefault(file.rank, file)
        if kept is not file:
            notes.append(
                f"rank {file.rank} left two files: {kept.segments.name} counts, "
                f"not {file.segments.name}"
            )
            if not _is_earlier_copy(file.segments, kept.segments):
                disputed.add(file.rank)
    return [best[rank] for rank in sorted(best)], notes, disputed


def _is_earlier_copy(segments: Segments, of: Segments) -> bool:
    """Return whether another log begins with all that this one holds: it has grown since."""
    size = segments.size - 1  # after a torn line, the earlier copy has an added newline
    parts = [(at, min(at + PAGE, size)) for at in range(0, size, PAGE)]
    try:
        return all(segments.read(*part) == of.read(*part) for part in parts)
    except LogError:
        return False


def _world_size(logs: Iterable[RankLog], groups: Iterable[GroupInfo]) -> tuple[int, list[str]]:
    """Return the number of ranks from the headers, or from group members if no header has it.

    Return notes also.
    """
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
    members = (rank for group in groups for rank in group.ranks if is_rank(rank))
    usual = max(told, key=lambda size: (told[size], size), default=max(members, default=-1) + 1)
    return max(usual, highest + 1), notes


_MOST_NAMES: Final = 4


def _unfamiliar(logs: Iterable[RankLog]) -> list[str]:
    """Return a line per version of torch with what the tracers did not know of it."""
    ops: defaultdict[str, set[str]] = defaultdict(set)
    targets: defaultdict[str, set[str]] = defaultdict(set)
    for log in logs:
        if log.unfamiliar is not None:
            version = log.header.versions.get("torch", "")
            ops[version].update(log.unfamiliar.ops)
            targets[version].update(log.unfamiliar.targets)
    notes = []
    for version, names in sorted(ops.items()):
        functions = words.listed(sorted(names), _MOST_NAMES)
        parts = [f"what {functions} does is guessed from its arguments"] if names else []
        if lost := words.listed(sorted(targets[version]), _MOST_NAMES):
            parts.append(f"not found, and not followed: {lost}")
        notes.append(f"torch {version} is not known in all its parts: {'; '.join(parts)}")
    return notes


def _imported(logs: Iterable[RankLog]) -> list[str]:
    """Return a line per tool that wrote the original traces, and what these leave open."""
    ranks: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    versions: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    lost: list[int] = []
    timeless: list[int] = []
    timed: list[int] = []
    for log in logs:
        if log.imported is not None:
            of = log.imported.tool, log.imported.open
            ranks[of].append(log.rank)
            versions[of].add(log.imported.version)
            if log.imported.lost:
                lost.append(log.rank)
            (timed if log.imported.written else timeless).append(log.rank)
    notes = []
    for (tool, leaves), those in sorted(ranks.items()):
        told = words.listed(sorted(filter(None, versions[tool, leaves])))
        version = f", format {told}" if told else ""
        notes.append(f"{tool} dumps of {words.ranks(those)}{version}; they do not tell: {leaves}")
    if lost:
        notes.append(
            f"the ring of {words.ranks(lost)} holds the latest calls only: what came before is not "
            "known, and messages are not counted against each other"
        )
    if timed:
        notes.append(
            f"the pending times of calls of {words.ranks(timed)} end when the dump was written: at "
            "the time of its file, or a time that the dump itself notes"
        )
    if timeless:
        notes.append(
            f"when the dump of {words.ranks(timeless)} was made is not known. torch writes one "
            "when a call has timed out, or on request; so it is taken for the dump of a hang"
        )
    return notes


def _newer(logs: Iterable[RankLog]) -> list[str]:
    newest = max((log.header.format for log in logs), default=FORMAT)
    if newest <= FORMAT:
        return []
    told = f"written by a newer collectrace, in format {newest}; this one knows {FORMAT}."
    return [f"{told} Upgrade it to read all of the log"]
