"""List the calls of one rank."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from collectrace import words
from collectrace.align.alignment import compared, groups_named, judged
from collectrace.align.browsing.places import place_of, places
from collectrace.align.reading import run_reader
from collectrace.align.reading.evidence import ChannelKey, Key, RankLog, RunEvidence, StreamKey
from collectrace.errors import CollectraceError, LogError
from collectrace.records import Activity
from collectrace.views import CallRow, CallsOfRank

LAST: Final = 50
"""Calls that are shown."""

Position = tuple[int, Key, int]
"""Offset of a call's line, its stream or channel, its number there."""


def calls_of(
    path: str | os.PathLike[str],
    rank: int,
    *,
    run: str | None = None,
    group: str | None = None,
    last: int = LAST,
    around: int | None = None,
) -> CallsOfRank:
    """Return the last calls of a rank, or those around one.

    Args:
        path: as :func:`collectrace.align.align` takes it.
        rank: a global rank.
        run: which run, by its id; the latest by default.
        group: calls of this process group only, by its name or description.
        last: how many calls.
        around: the call in their middle: its sequence number in ``group``, or in the rank's only
            group, or in the default group.

    Raises:
        LogError: the logs cannot be used, or that rank left none.
        CollectraceError: no group has this name, or there is no such call.

    """
    evidence = run_reader.read(path, run)
    if rank not in evidence.logs:
        there = words.ranks(evidence.logs)
        lost = "no file" if rank not in evidence.unreadable else "a file that cannot be read"
        raise LogError(f"rank {rank} has {lost} in run {evidence.run}. Available: {there}.")
    alignment = judged(compared(evidence), 0)
    if not evidence.logs[rank].scanned and evidence.read_whole is not None:
        evidence = evidence.read_whole((rank,))
    log = evidence.logs[rank]
    named = set(evidence.groups) if group is None else groups_named(evidence.groups, group)
    order = sorted(_positions(log, named))
    if around is None:
        first = max(0, len(order) - last)
    else:
        first = max(0, _place(evidence, rank, order, around, group) - last // 2)
    chosen = order[first : first + last]
    ends = _Ends.of(log)
    marked = places(alignment, rank)
    rows = []
    for _, key, seq in chosen:
        call = log.call(key, seq)
        if call is not None:
            wall = log.header.wall + call.t - log.header.t
            finding = marked.get(place_of(call))
            rows.append(CallRow(call=call, wall=wall, fate=ends.fate(key, seq), finding=finding))
    state = next(one for one in alignment.ranks if one.rank == rank)
    used = dict.fromkeys(row.call.group for row in rows)
    return CallsOfRank(
        run=evidence.run,
        rank=rank,
        world_size=evidence.world_size,
        host=log.header.host,
        pid=log.header.pid,
        state=state.state,
        detail=state.detail,
        groups=tuple(evidence.groups[name] for name in used if name in evidence.groups),
        before=first,
        after=len(order) - first - len(chosen),
        calls=tuple(rows),
        headlines=tuple(finding.headline for finding in alignment.findings),
    )


def _positions(log: RankLog, groups: Collection[str]) -> Iterator[Position]:
    for key in log.counts:
        if key.group in groups:
            rows, shift = log.rows(key)
            for offset, seq in zip(rows.offset, rows.seq, strict=True):
                yield offset, key, seq + shift


def _place(
    evidence: RunEvidence, rank: int, order: list[Position], around: int, group: str | None
) -> int:
    """Return the index of the collective with a given number.

    Raises:
        CollectraceError: there is none, or there are several groups and none is named.

    """
    used = dict.fromkeys(key.group for _, key, _ in order if isinstance(key, StreamKey))
    meant = list(used)
    if group is None and len(used) > 1:
        meant = [n for n in used if words.group(evidence.groups[n]) == words.DEFAULT_GROUP]
        if not meant:
            raise CollectraceError(
                f"--around {around} fits several groups. Name one by --group: {', '.join(used)}."
            )
    found = [
        at
        for at, (_, key, seq) in enumerate(order)
        if isinstance(key, StreamKey) and key.group in meant and seq == around
    ]
    if not found:
        last = max((s for _, k, s in order if k.group in meant and isinstance(k, StreamKey)),
                   default=0)  # fmt: skip
        what = words.listed([words.group(evidence.groups[name]) for name in meant]) or "that group"
        there = f"Its last one is {last}." if last else "It has none."
        raise CollectraceError(
            f"--around {around}: rank {rank} has no such collective of {what}. {there}"
        )
    return found[0]


@dataclass(frozen=True, slots=True)
class _Ends:
    """The evidence in a log of how calls ended."""

    log: RankLog
    failed: frozenset[tuple[str, str, int, int | None, str | None]]
    inside: frozenset[tuple[str, str, int, int | None, str | None]]
    """What its threads are in, by its latest heartbeat, stall or exit."""

    @classmethod
    def of(cls, log: RankLog) -> _Ends:
        moments = [m for m in (log.alive, log.stall, log.exit) if m is not None]
        latest = max(moments, key=lambda moment: moment.t, default=None)
        inside: list[Activity] = latest.in_ if latest is not None else []
        return cls(
            log,
            frozenset((d.group, d.device, d.seq, d.peer, d.op) for d in log.failed),
            frozenset(
                (a.group, a.device, a.seq, a.peer, a.op if a.peer is not None else None)
                for a in inside
                if a.group is not None and a.device is not None and a.seq is not None
            ),
        )

    def fate(self, key: Key, seq: int) -> Literal["done", "pending", "failed", ""]:
        peer, op, done = None, None, self.log.dones.get(key)
        if isinstance(key, ChannelKey):
            sends = key.source == self.log.rank
            peer, op = (key.destination, "send") if sends else (key.source, "recv")
        here = (key.group, key.device, seq, peer, op)
        if here in self.failed:
            return "failed"
        if done is not None and seq <= done.seq:
            return "done"
        return "pending" if here in self.inside else ""
