"""Compare two runs of one program: what each rank issued, in which order.

Lines of code and names of groups may differ between two commits or job sizes, and are ignored. What
counts is the kind of a call: its op, its role and part, the rank's group, its reduction; and then
its tensors.
"""

from __future__ import annotations

import os
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from collectrace import ops, roles, words
from collectrace.align.alignment import compared, judged
from collectrace.align.matching.programs import is_whole
from collectrace.align.reading import run_reader
from collectrace.align.reading.evidence import ChannelKey, Key, RankLog, RunEvidence, StreamKey
from collectrace.errors import LogError
from collectrace.findings import GroupInfo
from collectrace.records import Call
from collectrace.signature import counts
from collectrace.views import Count, Place, ScheduleDiff, Side


class Kind(NamedTuple):
    """The kind of a call, which does not depend on the commit or the size of the job."""

    role: str
    part: str
    op: str
    group: str
    reduce_op: str
    device: str


class Tensors(NamedTuple):
    """The tensors of a call."""

    dtype: str
    counts: tuple[int, ...]
    root: int | None


@dataclass(slots=True)
class _Ids:
    """Kinds and tensors of both runs, interned."""

    kinds: dict[Kind, int] = field(default_factory=dict)
    tensors: dict[Tensors, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Schedule:
    """The calls of one rank, in order: parallel arrays, with the stream and number of each call."""

    kinds: array[int]
    tensors: array[int]
    keys: array[int]
    seqs: array[int]
    streams: list[Key]
    log: RankLog

    def what(self, at: int) -> tuple[int, int]:
        """Return the ids of the call at a position; -1, -1 after the end."""
        return (self.kinds[at], self.tensors[at]) if at < len(self.kinds) else (-1, -1)

    def call(self, at: int) -> Call | None:
        """Return the call at a position; None after the end."""
        if at >= len(self.kinds):
            return None
        return self.log.call(self.streams[self.keys[at]], self.seqs[at])


@dataclass(slots=True)
class _Found:
    """A difference, and the ranks that share it."""

    at: int
    a: Call | None
    b: Call | None
    ranks: list[int] = field(default_factory=list)


def difference(
    a: str | os.PathLike[str],
    b: str | os.PathLike[str],
    *,
    progress: Callable[[int, int], None] | None = None,
) -> ScheduleDiff:
    """Return the first difference of each rank between two runs.

    Args:
        a: a run, as :func:`collectrace.align.align` takes it.
        b: another.
        progress: called with the bytes that are done, and their total, for each run.

    Raises:
        LogError: one cannot be used, or no rank left a whole log in both.

    """
    first, second = (run_reader.read(path, full=True, on_progress=progress) for path in (a, b))
    common = sorted(first.logs.keys() & second.logs.keys())
    both = tuple(r for r in common if is_whole(first.logs[r]) and is_whole(second.logs[r]))
    if not both:
        lacks = "a complete log" if common else "a file"
        raise LogError(
            f"no rank has {lacks} in both {os.fspath(a)} and {os.fspath(b)}. "
            "Give two runs with such a rank."
        )
    # Shards get smaller as a job grows: sizes and roots are compared only in jobs of one size.
    sized = first.world_size == second.world_size
    ids = _Ids()
    found: dict[str, dict[tuple[int, ...], _Found]] = {"schedule": {}, "tensors": {}, "ended": {}}
    tallies: tuple[list[Counter[int]], list[Counter[int]]] = ([], [])
    for rank in both:
        one, other = (_schedule(run, rank, ids, sized=sized) for run in (first, second))
        for tally, schedule in zip(tallies, (one, other), strict=True):
            tally.append(Counter(schedule.kinds))
        what, at = _first(one, other)
        if what is None:
            continue
        alike = (at, *one.what(at), *other.what(at))
        if alike not in found[what]:
            found[what][alike] = _Found(at, one.call(at), other.call(at))
        found[what][alike].ranks.append(rank)
    return ScheduleDiff(
        a=_side(a, first),
        b=_side(b, second),
        compared=both,
        left_out=tuple(rank for rank in common if rank not in both),
        schedule=_most_first(found["schedule"].values()),
        tensors=_most_first(found["tensors"].values()),
        ended=_most_first(found["ended"].values()),
        counts=_counts(ids, tallies),
    )


def _side(path: str | os.PathLike[str], evidence: RunEvidence) -> Side:
    return Side(
        path=os.fspath(path),
        run=evidence.run,
        world_size=evidence.world_size,
        verdict=judged(compared(evidence), 0).outcome,
    )


def _most_first(found: Iterable[_Found]) -> tuple[Place, ...]:
    ordered = sorted(found, key=lambda one: (-len(one.ranks), one.at, one.ranks))
    return tuple(
        Place(ranks=tuple(one.ranks), position=one.at + 1, a=one.a, b=one.b) for one in ordered
    )


def _first(a: _Schedule, b: _Schedule) -> tuple[str | None, int]:
    """Return the first kind of difference of two schedules, and its position; "schedule" wins."""
    common = min(len(a.kinds), len(b.kinds))
    at = _mismatch(a.kinds, b.kinds, common)
    if at < common:
        return "schedule", at
    tensors = _mismatch(a.tensors, b.tensors, common)
    if tensors < common:
        return "tensors", tensors
    return ("ended", common) if len(a.kinds) != len(b.kinds) else (None, common)


def _mismatch(a: array[int], b: array[int], stop: int) -> int:
    """Return the first index below ``stop`` where two arrays differ; ``stop`` if none."""
    low, high = 0, stop
    if a[:stop] == b[:stop]:
        return stop
    while high - low > 1:
        middle = (low + high) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle
    return low


def _schedule(run: RunEvidence, rank: int, ids: _Ids, *, sized: bool) -> _Schedule:
    log = run.logs[rank]
    streams = list(log.counts)
    merged = []
    for which, key in enumerate(streams):
        rows, shift = log.rows(key)
        merged += [
            (offset, which, seq + shift, meaning, appearance)
            for offset, seq, meaning, appearance in zip(
                rows.offset, rows.seq, rows.meaning, rows.appearance, strict=True
            )
        ]
    merged.sort()
    names = _group_names(run.groups, (streams[which].group for _, which, *_ in merged))
    known: dict[tuple[int, int, int], tuple[int, int]] = {}
    kinds, tensors = array("i"), array("i")
    for _, which, _, meaning, appearance in merged:
        key = streams[which]
        place = (which, meaning, appearance)
        found = known.get(place)
        if found is None:
            example = log.vocabulary.examples[meaning]
            role = log.vocabulary.appearances[appearance].role
            part = (example.part or "") if roles.of(role).by_part else ""
            kind = Kind(
                role, part, _op(example, key, rank), names[key.group],
                example.reduce_op or "", key.device,
            )  # fmt: skip
            about = _tensors(example, key, rank, sized=sized)
            found = known[place] = (
                ids.kinds.setdefault(kind, len(ids.kinds)),
                ids.tensors.setdefault(about, len(ids.tensors)),
            )
        kinds.append(found[0])
        tensors.append(found[1])
    return _Schedule(
        kinds, tensors, array("i", (which for _, which, *_ in merged)),
        array("q", (seq for _, _, seq, *_ in merged)), streams, log,
    )  # fmt: skip


def _op(call: Call, key: Key, rank: int) -> str:
    """Return the op; for a message its direction from this rank's view."""
    if isinstance(key, StreamKey):
        return ops.canonical_op(call.op)
    return "send" if key.source == rank else "recv"


def _tensors(call: Call, key: Key, rank: int, *, sized: bool) -> Tensors:
    dtype = call.dtype if isinstance(call.dtype, str) else ",".join(call.dtype or ())
    if not sized:
        return Tensors(dtype, (), None)
    root = call.root
    if isinstance(key, ChannelKey):
        root = key.destination if key.source == rank else key.source
    return Tensors(dtype, tuple(counts(call)), root)


def _group_names(groups: Mapping[str, GroupInfo], used: Iterable[str]) -> dict[str, str]:
    """Return names for the groups of a rank that are the same in both runs.

    It is the user's name, or the group's ordinal among those that the rank uses. torch numbers
    groups in the order of creation, so numbers vary with the size of the job.
    """
    names: dict[str, str] = {}
    unnamed = 0
    for name in dict.fromkeys(used):
        info = groups.get(name)
        told = words.group(info) if info is not None else words.named_group(name)
        if told == words.named_group(name) and told != words.DEFAULT_GROUP:
            unnamed += 1
            told = f"the {words.ordinal(unnamed)} group without a name"
        names[name] = told
    return names


def _counts(ids: _Ids, tallies: tuple[list[Counter[int]], list[Counter[int]]]) -> tuple[Count, ...]:
    """Return per kind how often ranks issued it, with all parts of a framework together."""
    rows: dict[tuple[str, str, str], list[int]] = {}
    for kind, number in ids.kinds.items():
        rows.setdefault((kind.role, kind.op, kind.group), []).append(number)
    told = []
    for (role, op, group), numbers in rows.items():
        a, b = (_range(tally, numbers) for tally in tallies)
        told.append(Count(role=role, op=op, group=group, a=a, b=b))
    return tuple(sorted(told, key=lambda row: (row.a == row.b, row.role, row.op, row.group)))


def _range(tally: list[Counter[int]], numbers: list[int]) -> tuple[int, int]:
    totals = [sum(one[n] for n in numbers) for one in tally]
    return min(totals), max(totals)
