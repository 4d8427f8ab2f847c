"""A Flight Recorder dump beside a rank's own file: what the device did with the host's calls.

Both count the calls of a group from 1, but a backend that makes two calls of one counts two. So the
two are joined per stream, and only if every call that both have is the same op.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from collectrace.align.reading.keys import StreamKey
from collectrace.align.reading.rank_records import RankRecords
from collectrace.dumps import MAIN
from collectrace.errors import LogError
from collectrace.foreign import convert
from collectrace.foreign.errors import NotReadable
from collectrace.log_folder import Blob
from collectrace.ops import canonical_op
from collectrace.records import Activity, Alive, Header


def complete(records: RankRecords, header: Header, blob: Blob) -> str | None:
    """Add to a rank's records what a dump adds; return a note on what was ignored, and why."""
    try:
        trace = convert.read_one(blob, records.rank)
    except (NotReadable, LogError) as problem:
        return f"{blob.name} {problem}: left out"
    theirs = RankRecords(records.rank, records.vocabulary)
    for _, data in trace.file.segments():
        theirs.feed(0, data.split(b"\n"), -1, calls_only=False)
        theirs.settle()
    joined = {
        key for key in theirs.rows if isinstance(key, StreamKey) and _is_same(records, theirs, key)
    }
    shift = trace.began - 1 - header.wall + header.t
    for key in joined:
        done, known = theirs.dones.get(key), records.dones.get(key)
        if done is not None and (known is None or known.seq < done.seq):
            records.dones[key] = replace(done, t=max(1, done.t + shift))
    if theirs.alive is not None:
        _add_activities(records, theirs.alive, joined, shift)
    # On the CPU the tracer sees itself what is complete.
    left = {k for k in theirs.rows if isinstance(k, StreamKey) and k.device != "cpu"} - joined
    if left:
        names = ", ".join(sorted({key.group for key in left}))
        # The same for every rank, so that it is told once.
        return (
            f"Flight Recorder's dumps number the calls of group {names} in another way: what the "
            "device did with them is not shown"
        )
    return None


def _is_same(records: RankRecords, theirs: RankRecords, key: StreamKey) -> bool:
    """Return whether every call of a stream that both files have is the same op in both."""
    mine, other = records.rows.get(key), theirs.rows[key]
    if mine is None or not other:
        return False
    common = 0
    for seq, meaning in zip(other.seq, other.meaning, strict=True):
        at = mine.find(seq)
        if at is None:
            continue
        ops = [canonical_op(mine.vocabulary.examples[m].op) for m in (mine.meaning[at], meaning)]
        if not (ops[0].startswith(ops[1]) or ops[1].startswith(ops[0]) or tuple(ops) in _MADE_OF):
            return False
        common += 1
    return common > 0


_MADE_OF: Final = frozenset({("reduce_scatter_single", "all_reduce")})
"""Calls that gloo records as another op: (the tracer's name, gloo's). Most others begin alike, such
as ``all_gather`` and ``all_gather_single``. See ProcessGroupGloo.cpp, ``_reduce_scatter_base``,
which reduces everything and keeps a share (torch 2.13)."""


def _add_activities(
    records: RankRecords, theirs: Alive, joined: set[StreamKey], shift: int
) -> None:
    """Add what the device is in to what the host's threads are in."""
    known = records.alive
    latest = max((rows.t[-1] for rows in records.rows.values() if rows), default=0)
    # The host has left what it was in before its last call.
    mine = list(known.in_) if known is not None and known.t >= latest else []
    is_told = any(activity.thread == MAIN for activity in mine)
    more = [
        replace(activity, since=max(1, activity.since + shift))
        for activity in theirs.in_
        if _is_of(activity, joined) and not (activity.thread == MAIN and is_told)
    ]
    have = {(a.thread, a.group, a.device, a.seq) for a in mine}
    more = [a for a in more if (a.thread, a.group, a.device, a.seq) not in have]
    if more:
        told = max(theirs.t + shift, known.t if known is not None else 0, latest + 1)
        records.alive = Alive(t=told, in_=[*mine, *more])


def _is_of(activity: Activity, joined: set[StreamKey]) -> bool:
    return StreamKey(activity.group or "", activity.device or "") in joined
