"""Convert a folder of another tool's files to rank files, one after the other.

Only the converted lines of a file are kept, so hundreds of ranks need the memory of a few.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePosixPath
from typing import Final, Protocol

from collectrace import words
from collectrace.errors import LogError
from collectrace.foreign import formats
from collectrace.foreign.errors import NotReadable
from collectrace.foreign.flight_recorder import TOOL, read_pickle
from collectrace.foreign.plain_pickle import MOST_BYTES
from collectrace.foreign.trace import Origin, Trace
from collectrace.log_folder import Blob

EARLIER: Final = "earlier"
"""The folder, and so the run, of dumps of an earlier attempt."""

_STACKS: Final = re.compile(rb"^(?:Current thread|Thread) 0x[0-9a-f]+", re.MULTILINE)

_MOST_LISTED: Final = 3

_MOST_WORKERS: Final = 4
"""Most processes that read dumps; each needs memory."""

_RANKS_PER_WORKER: Final = 16
"""Ranks per process; with fewer, a process costs more than it saves."""

Take = Callable[[str, bytes], None]
"""A function that takes the name and the bytes of a segment, rank by rank."""


class Found(Blob, Protocol):
    """A file that may be another tool's."""

    @property
    def written(self) -> int | None:
        """When it was last written, ns since 1970; None: not known."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that is recognised by its content or its name."""

    file: Found
    rank: int


@dataclass(slots=True)
class Converted:
    """The result of converting a folder."""

    tool: str
    ranks: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    idle: list[int] = field(default_factory=list)
    """Ranks without a pending call."""
    earlier: list[int] = field(default_factory=list)
    """Ranks with a dump of an earlier attempt of the job: the other dumps began later."""


def candidates(files: Iterable[Found]) -> list[Candidate]:
    """Return the files of other tools, recognised by their first bytes or names."""
    found = []
    for file in files:
        base = PurePosixPath(file.name).name
        rank = formats.rank(base)
        if rank is None:
            continue
        if formats.is_named(base) or (file.size and formats.of(_head(file)) is not None):
            found.append(Candidate(file, rank))
    return found


def rank_of_stacks(file: Found) -> int | None:
    """Return the rank of a file with faulthandler's stacks; None: it is not such a file."""
    base = PurePosixPath(file.name).name
    if not base.endswith((".txt", ".log")) or not file.size:
        return None
    return formats.rank(base) if _STACKS.search(_head(file)) else None


def _head(file: Blob) -> bytes:
    return file.read(0, min(file.size, formats.HEAD))


def convert(those: Sequence[Candidate], label: str, take: Take) -> Converted:
    """Read every file, and pass the resulting rank files to ``take``.

    Raises:
        LogError: not one of them can be read.

    """
    world = max(one.rank for one in those) + 1
    found = Converted(TOOL)
    problems: list[str] = []
    spans: dict[int, tuple[int, int]] = {}
    for made in _made(_by_rank(those), world):
        problems += made.problems
        if made.span is None:
            continue
        found.notes += made.notes
        found.idle += [made.rank] if made.is_idle else []
        spans[made.rank] = made.span
        for n, data in made.segments:
            take(f"rank{made.rank:05d}{f'.{n:04d}' if n else ''}.jsonl", data)
    if not spans:
        more = (
            f" (and {words.counted(len(problems) - 1, 'more file')})" if len(problems) > 1 else ""
        )
        raise LogError(f"{label}: {problems[0]}{more}. No code in it was run.")
    found.ranks = sorted(spans)
    latest = max(began for began, _ in spans.values())
    found.earlier = [rank for rank in found.ranks if spans[rank][1] < latest]
    if found.earlier:
        found.notes.append(
            f"{words.ranks(found.earlier)}: an earlier attempt left their dumps, before the others "
            f"began. They are a separate run (--run {EARLIER})"
        )
    found.notes += [f"left out: {problem}" for problem in problems[:_MOST_LISTED]]
    if len(problems) > _MOST_LISTED:
        found.notes.append(
            f"left out as well: {words.counted(len(problems) - _MOST_LISTED, 'more file')}"
        )
    return found


def read_one(file: Blob, rank: int) -> Trace:
    """Return the trace of one rank from a dump beside its rank file.

    Raises:
        NotReadable: it is not a dump.

    """
    return _read(file, rank, rank + 1, getattr(file, "written", None))


@dataclass(slots=True)
class _Made:
    """The result of converting the files of one rank."""

    rank: int
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    is_idle: bool = False
    span: tuple[int, int] | None = None
    """The times of its first and last entry, ns; None: no file of it can be read. The first is 0 if
    the ring has wrapped, because then the start of the process is not known."""
    segments: list[tuple[int, bytes]] = field(default_factory=list)


def _made(by_rank: Mapping[int, Sequence[Candidate]], world: int) -> Iterator[_Made]:
    """Yield the ranks in order; many ranks are converted in parallel processes if that is safe."""
    workers = min(os.cpu_count() or 1, _MOST_WORKERS, len(by_rank) // _RANKS_PER_WORKER)
    # A fork copies locks that other threads hold.
    make = partial(_make, world)
    if workers < 2 or threading.active_count() > 1:
        yield from map(make, by_rank.items())
        return
    fork = multiprocessing.get_context("fork")
    try:
        # They make no reference cycles, and the search for them took a tenth of the time.
        with ProcessPoolExecutor(workers, mp_context=fork, initializer=gc.disable) as pool:
            yield from pool.map(make, by_rank.items(), chunksize=2)
    except BrokenProcessPool:
        raise LogError(
            "a process that read dumps was killed. Free some memory, or give fewer."
        ) from None


def _make(world: int, those: tuple[int, Sequence[Candidate]]) -> _Made:
    rank, several = those
    made, traces = _Made(rank), []
    for one in several:
        try:
            traces.append((one, _read(one.file, rank, world, one.file.written)))
        except NotReadable as problem:
            made.problems.append(f"{one.file.name} {problem}")
    if traces:
        chosen, trace = max(traces, key=lambda pair: pair[1].ended)
        made.notes = [
            f"rank {rank} left several dumps: {chosen.file.name} counts, not {other.file.name}"
            for other, _ in traces
            if other is not chosen
        ]
        made.notes += trace.notes
        made.is_idle = trace.is_idle
        made.span = trace.began if trace.is_whole else 0, trace.until
        made.segments = list(trace.file.segments())
    return made


def _by_rank(those: Sequence[Candidate]) -> dict[int, list[Candidate]]:
    found: dict[int, list[Candidate]] = {}
    for one in sorted(those, key=lambda one: (one.rank, one.file.name)):
        found.setdefault(one.rank, []).append(one)
    return found


def _read(file: Blob, rank: int, world: int, written: int | None) -> Trace:
    if not file.size:
        raise NotReadable("is empty")
    if file.size > MOST_BYTES:
        raise NotReadable(f"has {file.size >> 20} MiB; at most {MOST_BYTES >> 20} are read")
    data = file.read(0, file.size)
    read = formats.of(data[: formats.HEAD])
    if read is None and data[:1] != b"\x80":
        raise NotReadable(_what(data))
    return (read or read_pickle)(data, Origin(file.name, rank, world, written))


def _what(data: bytes) -> str:
    """Describe a file that is named like a dump but is not one."""
    start = data[:60].split(b"\n", 1)[0].decode("utf-8", "replace")
    shown = "".join(c for c in start if c.isprintable()).strip()
    return f"is not a {TOOL} dump: it begins with {shown[:40]!r}"
