"""Write a run as a timeline: the calls of every rank, and which calls met, in order of time.

Events are in the Trace Event Format, which the Perfetto UI reads
(https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU). A process is a
rank, a thread one of its process groups, its messages, or something else it waits for.

A collective's slice is the wait for others. It lasts until the last rank of the group has issued
the same, or until its own rank issues the next. The transfer after it is not recorded. A call that
nobody met lasts until the end of the rank's log, and so do those at which ranks diverged.

Ranks are merged by the shared clock, a few pages of each at a time, and written events are dropped.
So memory grows with the ranks and their distance in time, not with the length of the run.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count, filterfalse
from typing import Any, Final

from collectrace import ops, words
from collectrace.align.alignment import compared
from collectrace.align.browsing.meetings import Expected, Place, met_at
from collectrace.align.browsing.places import place_of, places
from collectrace.align.matching.comparison import Comparison
from collectrace.align.ranks.clocks import Clocks, estimate
from collectrace.align.reading import run_reader
from collectrace.align.reading.evidence import RankLog, RunEvidence
from collectrace.findings import Alignment
from collectrace.records import Batch, Call, Done, Exit, Group, Join, Raised, Record, Stall, Sync

Event = dict[str, Any]
"""``ts`` and ``dur`` are ns, from the beginning of the run."""

_KINDS: Final = ("call", "done", "group", "batch", "sync", "join", "raised", "stall", "exit")
_CHUNK: Final = 1 << 16
"""Bytes of one rank's log that are in memory."""

_SHORTEST: Final = 1000
"""Least ns of a call that every rank had issued, so that it can be seen and clicked."""

_MOST_OPEN: Final = 100_000
"""Open calls that are tracked, of all ranks together; beyond it the oldest lose their arrows."""

_MOST_PID: Final = 1 << 22
"""The largest process number of Linux (/proc/sys/kernel/pid_max); a damaged log may have any."""

_DATA, _DEVICE, _GROUPS = "data loading", "device", "creation of groups"
_FINDINGS, _EVENTS = "findings", "events"


def events(path: str | os.PathLike[str], alignment: Alignment) -> Iterator[Event]:
    """Return the events of a run that was aligned; within a track in the order of time.

    Raises:
        LogError: the logs cannot be used any more.

    """
    evidence = run_reader.read(path, alignment.run)
    comparison = compared(evidence)
    clocks = estimate(comparison)
    return _Timeline(comparison, clocks, alignment).events()


@dataclass(slots=True)
class _Slice:
    """A call that its rank is in."""

    track: int
    begin: int
    call: Call
    place: Place | None
    flow: Event | None = None
    finding: int | None = None


@dataclass(slots=True)
class _Meeting:
    """A row that some ranks have issued, and others will issue."""

    flow: int
    came: set[int] = field(default_factory=set)
    slices: list[tuple[int, _Slice]] = field(default_factory=list)


class _Rank:
    """One rank of the timeline: its tracks, and the open call on each."""

    def __init__(self, rank: int, log: RankLog, pid: int, tracks: Iterator[int]) -> None:
        self.rank, self.log, self.pid = rank, log, pid
        self._numbers = tracks
        self._tracks: dict[str, int] = {}
        self.open: dict[int, _Slice] = {}
        self.ends: dict[int, int] = {}
        """Per track the end of its last slice: none begins before it."""
        self.asked: dict[str, int] = {}
        """By name, when the creation of a group began."""

    def track(self, name: str) -> tuple[int, list[Event]]:
        """Return the number of a track, and its introduction if it is new."""
        known = self._tracks.get(name)
        if known is not None:
            return known, []
        number = self._tracks[name] = next(self._numbers)
        return number, [
            self._meta("thread_name", number, {"name": name}),
            self._meta("thread_sort_index", number, {"sort_index": number}),
        ]

    def introduction(self, detail: str) -> list[Event]:
        """Return the events that name the rank in a viewer."""
        header = self.log.header
        return [
            self._meta("process_name", 0, {"name": f"rank {self.rank}"}),
            self._meta("process_labels", 0, {"labels": f"{header.host}; {detail}"}),
            self._meta("process_sort_index", 0, {"sort_index": self.rank}),
        ]

    def _meta(self, name: str, track: int, args: Event) -> Event:
        return {"name": name, "ph": "M", "pid": self.pid, "tid": track, "args": args}


class _Timeline:
    def __init__(self, comparison: Comparison, clocks: Clocks, alignment: Alignment) -> None:
        evidence = comparison.evidence
        self._evidence, self._clocks, self._alignment = evidence, clocks, alignment
        pids = _pids(evidence)
        # A viewer takes a thread with its process's number for its main one.
        tracks = filterfalse(set(pids.values()).__contains__, count(1))
        self._ranks = {
            rank: _Rank(rank, log, pids[rank], tracks)
            for rank, log in sorted(evidence.logs.items())
        }
        self._marked = {rank: places(alignment, rank) for rank in self._ranks}
        self._origin = min(
            (clocks.when(rank, _first(log)) for rank, log in evidence.logs.items()), default=0
        )
        self._meetings: dict[Place, _Meeting] = {}
        self._flows = count(1)
        self._expected = Expected(comparison)

    def events(self) -> Iterator[Event]:
        states = {rank.rank: rank.state for rank in self._alignment.ranks}
        for rank in self._ranks.values():
            yield from rank.introduction(states.get(rank.rank, ""))
        merged = heapq.merge(*(self._records(rank) for rank in self._ranks.values()),
                             key=lambda one: one[0])  # fmt: skip
        for at, rank, record in merged:
            yield from self._of(at, rank, record)
        for rank in self._ranks.values():
            end = self._at(rank, rank.log.last_t)
            for slice_ in list(rank.open.values()):
                yield from self._close(rank, slice_, end, "the log ends")

    def _records(self, rank: _Rank) -> Iterator[tuple[int, _Rank, Record]]:
        """Yield a rank's records with times that never decrease, within those of its log."""
        latest, end = 0, self._at(rank, rank.log.last_t)
        for record in _without_refused(rank.log.records(_KINDS, _CHUNK)):
            latest = max(latest, min(self._at(rank, record.t), end))
            yield latest, rank, record

    def _at(self, rank: _Rank, t: int) -> int:
        return max(0, self._clocks.when(rank.rank, t) - self._origin)

    def _of(self, at: int, rank: _Rank, record: Record) -> Iterable[Event]:
        match record:
            case Call():
                return self._call(at, rank, record)
            case Done():
                return self._done(at, rank, record)
            case Batch():
                return self._wait(at, rank, _DATA, f"batch {record.batch}", record.wait,
                                  {"loader": record.loader, "site": record.site})  # fmt: skip
            case Sync():
                return self._wait(at, rank, _DEVICE, record.api, record.wait, {"site": record.site})
            case Group():
                return self._group(at, rank, record)
            case Join():
                return self._instant(at, rank, f"join: {record.phase}", {"site": record.site})
            case Raised():
                what = {"message": record.message, "site": record.site}
                return self._instant(at, rank, f"{record.error} in {record.what}", what)
            case Stall():
                return self._instant(at, rank, "stall", {"pending_s": record.pending / 1e9})
            case Exit():
                what = {"error": record.error, "message": record.message, "site": record.site}
                return self._instant(at, rank, f"exit: {record.reason}", what)
        return []

    # -- calls --------------------------------------------------------------------------------

    def _call(self, at: int, rank: _Rank, call: Call) -> Iterator[Event]:
        info = self._evidence.groups.get(call.group)
        name = words.group(info) if info is not None else words.named_group(call.group)
        if call.op in ops.POINT_TO_POINT:
            name += ", messages"
        elif len({key.device for key in rank.log.last_seq if key.group == call.group}) > 1:
            name += f", {call.device}"
        track, introduction = rank.track(name)
        yield from introduction
        before = rank.open.get(track)
        if before is not None:
            yield from self._close(rank, before, at, "the rank went on")
        place = met_at(rank.rank, call)
        begin = max(at, rank.ends.get(track, 0))
        slice_ = _Slice(
            track, begin, call, place, finding=self._marked[rank.rank].get(place_of(call))
        )
        rank.open[track] = slice_
        if place is not None:
            yield from self._meet(at, rank, slice_, place)

    def _meet(self, at: int, rank: _Rank, slice_: _Slice, place: Place) -> Iterator[Event]:
        """Enter a rank at a row; close the slices once the last expected rank has issued it."""
        expected = self._expected.ranks(place)
        if expected < 2:
            return
        meeting = self._meetings.get(place)
        if meeting is None:
            if len(self._meetings) >= _MOST_OPEN:
                del self._meetings[next(iter(self._meetings))]
            meeting = self._meetings[place] = _Meeting(next(self._flows))
        phase = "s" if not meeting.slices else "f" if len(meeting.came) + 1 >= expected else "t"
        slice_.flow = {"name": "meets", "cat": "pairs", "ph": phase, "id": meeting.flow}
        if phase != "s":
            slice_.flow["bp"] = "e"
        meeting.came.add(rank.rank)
        meeting.slices.append((rank.rank, slice_))
        if len(meeting.came) < expected:
            return
        del self._meetings[place]
        if self._expected.is_whole(place):
            for number, one in meeting.slices:
                other = self._ranks[number]
                if other.open.get(one.track) is one:
                    end = max(at, one.begin + _SHORTEST)
                    yield from self._close(other, one, end, "every rank has come")

    def _done(self, at: int, rank: _Rank, done: Done) -> Iterator[Event]:
        """Yield the end of a failed call; a watermark is too inexact to end other calls."""
        if done.refused:
            what = {"error": done.error}
            yield from self._instant(at, rank, f"refused: {done.op or 'collective'}", what)
        if not done.failed or done.refused:
            return
        for slice_ in list(rank.open.values()):
            if _is_of(done, slice_.call):
                yield from self._close(rank, slice_, at, done.error or "it raised")

    def _close(self, rank: _Rank, slice_: _Slice, end: int, why: str) -> Iterator[Event]:
        del rank.open[slice_.track]
        end = max(end, slice_.begin)
        rank.ends[slice_.track] = end
        call = slice_.call
        args: Event = {
            "call": words.op(call), "seq": call.seq, "role": call.role, "part": call.part,
            "site": call.site, "source": self._source(call.site), "via": call.via,
            "iteration": call.iteration, "thread": call.thread, "async": call.async_,
            "until": why,
        }  # fmt: skip
        event: Event = {
            "name": call.op, "cat": "message" if call.op in ops.POINT_TO_POINT else "collective",
            "ph": "X", "ts": slice_.begin, "dur": end - slice_.begin, "pid": rank.pid,
            "tid": slice_.track, "args": args,
        }  # fmt: skip
        if slice_.finding is not None:
            event["cname"] = "terrible"
            args["finding"] = self._alignment.findings[slice_.finding].headline
            yield from self._mark(rank, slice_, end)
        yield event
        if slice_.flow is not None:
            # After the slice, at its first moment: so both viewers find the slice of the arrow.
            yield {**slice_.flow, "ts": slice_.begin, "pid": rank.pid, "tid": slice_.track}

    def _source(self, site: str | None) -> str | None:
        return self._evidence.source_files.line(site) or None

    # -- what else a rank is in -----------------------------------------------------------------

    def _mark(self, rank: _Rank, slice_: _Slice, end: int) -> Iterator[Event]:
        assert slice_.finding is not None
        finding = self._alignment.findings[slice_.finding]
        name = f"{finding.kind}: {finding.headline}"
        args = {"cause": finding.cause, "fix": finding.fix, "severity": finding.severity}
        yield from self._slice(rank, _FINDINGS, name, "finding", slice_.begin, end, args)

    def _slice(
        self, rank: _Rank, track: str, name: str, cat: str, begin: int, end: int, args: Event
    ) -> Iterator[Event]:
        """Yield a slice of a track beside the calls, without overlap with the one before."""
        number, introduction = rank.track(track)
        yield from introduction
        begin = max(begin, rank.ends.get(number, 0))
        end = rank.ends[number] = max(end, begin)
        yield {
            "name": name, "cat": cat, "ph": "X", "ts": begin, "dur": end - begin,
            "pid": rank.pid, "tid": number, "args": args,
        }  # fmt: skip

    def _wait(
        self, at: int, rank: _Rank, track: str, name: str, wait: int, args: Event
    ) -> Iterator[Event]:
        return self._slice(rank, track, name, "wait", at - max(wait, 0), at, args)

    def _group(self, at: int, rank: _Rank, group: Group) -> Iterator[Event]:
        if group.phase == "asked":
            rank.asked[group.group] = at
        elif group.phase == "ready":
            asked = rank.asked.pop(group.group, at)
            name = group.description or group.group
            args = {"ranks": words.ranges(group.ranks), "site": group.site}
            yield from self._wait(at, rank, _GROUPS, f"new group {name}", at - asked, args)

    def _instant(self, at: int, rank: _Rank, name: str, args: Event) -> Iterator[Event]:
        number, introduction = rank.track(_EVENTS)
        yield from introduction
        yield {
            "name": name, "cat": "event", "ph": "i", "s": "t", "ts": at, "pid": rank.pid,
            "tid": number, "args": args,
        }  # fmt: skip


def _pids(evidence: RunEvidence) -> dict[int, int]:
    """Return the number of each rank's process: its own, unless two hosts have the same."""
    own = {rank: log.header.pid for rank, log in evidence.logs.items()}
    is_good = all(0 < pid <= _MOST_PID for pid in own.values())
    if is_good and len(set(own.values())) == len(own):
        return own
    return {rank: rank + 1 for rank in own}


def _without_refused(records: Iterable[Record]) -> Iterator[Record]:
    """Yield records without calls that the next record refuses: they never reached a peer."""
    held: Call | None = None
    for record in records:
        is_refused = isinstance(record, Done) and record.refused
        if held is not None and not (is_refused and _is_of(record, held)):
            yield held
        held = record if isinstance(record, Call) else None
        if held is None:
            yield record
    if held is not None:
        yield held


def _is_of(record: Record, call: Call) -> bool:
    return (
        isinstance(record, Done)
        and (record.group, record.device, record.seq) == (call.group, call.device, call.seq)
        and (record.peer is None or (record.peer, record.op) == (call.peer, call.op))
    )


def _first(log: RankLog) -> int:
    """Return the time of a rank's first line on its own clock: groups may precede the header."""
    return min([log.header.t, *(group.t for group in log.groups if group.t > 0)])


def began(alignment: Alignment) -> Mapping[str, object]:
    """Return the description of the run for the head of the timeline."""
    job = alignment.job
    return {
        "run": alignment.run,
        "verdict": alignment.outcome,
        "script": job.script if job is not None else "",
        "began_ns_since_1970": job.began if job is not None else None,
    }
