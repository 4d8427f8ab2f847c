"""How long ranks have waited for others, and when that is long enough as proof.

An absent rank proves nothing by itself: in a healthy job that is killed everywhere at once, ranks
are one call apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from collectrace import exceptions
from collectrace.align.judging.candidate import Candidate, IncompleteRow
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.closing_send import ENDS
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.align.ranks import host_waits
from collectrace.align.ranks.host_waits import HostWait
from collectrace.align.ranks.standing import Standing, Waiting
from collectrace.align.reading.evidence import GroupConflict, RankLog, StreamKey

PATIENCE: Final = 5_000_000_000
"""Wait that never proves anything, ns."""

_SLOWER: Final = 5
"""Factor over the longest earlier wait of a stream that a wait must exceed."""

_LOOK_BACK: Final = 4000
"""Earlier calls that are measured, over all ranks of a group."""


def waited(case: Case, candidate: Candidate, until: int | None = None) -> int:
    """Return the longest current wait at a candidate, ns; 0 if nobody waits.

    ``until``: when waits stopped proving anything, ns; None: they never did.
    """
    times = [
        (standing.end if until is None else min(standing.end, until)) - w.since
        for rank in _waiters(candidate)
        for standing in (case.standings[rank],)
        for w in standing.waiting
        if waits_at(w, candidate)
    ]
    return max(times, default=0)


def _waiters(candidate: Candidate) -> Sequence[int]:
    """Return the ranks that made the call, and the sender of a message that was meant for it."""
    source = candidate.source
    if not isinstance(source, ChannelIssue) or source.near is None:
        return candidate.present
    return (*candidate.present, source.near.channel.source)


def waits_at(w: Waiting, candidate: Candidate) -> bool:
    """Whether a thread waits at a candidate, or in a later call of its stream."""
    source = candidate.source
    if isinstance(source, ChannelIssue):
        if source.near is not None and w.channel == source.near.channel:
            return source.near.send is not None and (w.seq or 0) >= source.near.send.seq
        if source.near is not None and source.near.differs in ENDS and w.channel is not None:
            # Other messages between the two ranks in that iteration are misdirected too.
            ends = {source.channel.source, source.channel.destination}
            if {w.channel.source, w.channel.destination} == ends and w.channel != source.channel:
                return True
        # The numbers of both ends may differ if receives from any source took some messages.
        own = source.recv if w.rank == source.channel.destination else source.send
        return w.channel == source.channel and (w.seq or 0) >= (own.seq if own else source.seq)
    if isinstance(source, GroupConflict):
        # Groups that share a name have their members appended to it. A member waits for all.
        is_own = source.own and w.group.startswith(f"{source.name} [")
        return is_own or (w.seq is None and w.group == source.name)
    if candidate.stream is None or candidate.seq is None:
        return False
    return w.stream == candidate.stream and (w.seq or 0) >= candidate.seq


def gave_up(case: Case, candidate: Candidate) -> bool:
    """Whether a rank raised there because its wait timed out, or because its peer was lost."""
    return any(
        (standing.by_peers and any(waits_at(w, candidate) for w in standing.waiting))
        or failed_at(case, candidate, standing.rank)
        for standing in (case.standings[rank] for rank in _waiters(candidate))
    )


def failed_at(case: Case, candidate: Candidate, rank: int) -> bool:
    """Whether a rank's message at a candidate timed out, even if the rank continued."""
    source = candidate.source
    if not isinstance(source, ChannelIssue):
        return False
    own = source.recv if rank == source.channel.destination else source.send
    return own is not None and any(
        done.seq == own.seq and exceptions.gave_up(done.error or "")
        for done in case.failed_messages(rank, source.channel)
    )


def shows_hang(case: Case, candidate: Candidate) -> bool:
    """Whether the only evidence of waiting is dumps that count as dumps of a hang.

    torch writes a dump after a timeout or on request, mostly because of a hang. If a dump has a
    time, the time decides. If another rank completed the call, the dumps are of different times.
    """
    logs = [
        standing.log
        for standing in (case.standings[rank] for rank in _waiters(candidate))
        if any(waits_at(w, candidate) for w in standing.waiting)
    ]
    stream, seq = candidate.stream, candidate.seq or 0
    return are_undated(logs) and (stream is None or not _has_completed(case, stream, seq))


def are_undated(logs: Sequence[RankLog | None]) -> bool:
    """Whether all logs are dumps of another tool without a time."""
    return bool(logs) and all(
        log is not None and log.imported is not None and not log.imported.written for log in logs
    )


def _has_completed(case: Case, stream: StreamKey, seq: int) -> bool:
    logs = (case.log(rank) for rank in case.comparison.streams.get(stream, ()))
    dones = (log.dones.get(stream) for log in logs if log is not None)
    return any(done is not None and done.seq >= seq for done in dones)


def is_long(case: Case, stream: StreamKey | None, seq: int, ns: int) -> bool:
    """Whether a wait is much longer than any earlier wait of this stream.

    In a running job it must also exceed the stall limit, as a straggler may still arrive.
    """
    longest = _longest_wait(case, stream, seq) if stream is not None else 0
    if ns <= max(PATIENCE, _SLOWER * longest):
        return False
    live = [s.log for s in case.standings.values() if s.ended == "alive" and s.log is not None]
    return ns > max((round(log.header.stall_after * 1e9) for log in live), default=0)


def _longest_wait(case: Case, stream: StreamKey, seq: int) -> int:
    """Return the longest time between the first and the last rank of the preceding calls, ns."""
    members = case.comparison.streams.get(stream, ())
    start = max(1, seq - max(8, _LOOK_BACK // max(1, len(members))))
    columns: list[list[int | None]] = []
    for rank in case.comparison.streams.get(stream, ()):
        log = case.log(rank)
        if log is not None:
            calls = log.calls(stream, start, seq)
            columns.append([case.issued(rank, c) for c in calls])
    longest = 0
    for row in zip(*columns, strict=False):
        times = [t for t in row if t is not None]
        if len(times) == len(row) and times:
            longest = max(longest, max(times) - min(times))
    return longest


def _arrivals(case: Case, stream: StreamKey, seq: int) -> dict[int, int]:
    """Return by rank when it issued a call, ns; without ranks of which it is not known."""
    return {
        rank: issued
        for rank in case.comparison.streams.get(stream, ())
        if (issued := case.issued(rank, case.call(rank, stream, seq))) is not None
    }


def is_overdue(case: Case, stream: StreamKey, seq: int, waiters: Sequence[Standing]) -> bool:
    """Whether a call that all ranks have made should have completed long ago."""
    there = [(s, w) for s in waiters for w in _waits(case, s.rank).get(stream, ())]
    if any(s.by_peers for s, _ in there):
        return True
    arrived = _arrivals(case, stream, seq)
    told = [s.end for s, w in there if w.observed or w.what == "device"]
    if not told or not arrived or _may_be_completing(case, stream, seq, there):
        return False
    return are_undated([s.log for s, _ in there]) or is_long(
        case, stream, seq, max(told) - max(arrived.values())
    )


@once
def _waits(case: Case, rank: int) -> Mapping[StreamKey | None, Sequence[Waiting]]:
    """Return by stream what the threads of a rank wait for. There may be thousands."""
    found: dict[StreamKey | None, list[Waiting]] = {}
    for w in case.standings[rank].waiting:
        found.setdefault(w.stream, []).append(w)
    return found


def _may_be_completing(
    case: Case, stream: StreamKey, seq: int, there: Sequence[tuple[Standing, Waiting]]
) -> bool:
    """Whether dumps of another tool may have been requested while a call was completing.

    Then a running call looks like a hang. That is so if another rank completed it, or if no call
    was pending for as long as its group allows.
    """
    logs = [log for rank in case.comparison.streams.get(stream, ()) if (log := case.log(rank))]
    if not any(log.imported for log in logs):
        return False
    if _has_completed(case, stream, seq):
        return True
    if are_undated([s.log for s, _ in there]):
        return False
    allowed = max(round(log.header.stall_after * 1e9) for log in logs)
    return max(s.end - w.since for s, w in there) < allowed


def late(case: Case, stream: StreamKey, seq: int, waiters: Sequence[Standing]) -> Mapping[int, int]:
    """Return the ranks that made a call after others gave up, with their lateness.

    By rank, ns after the first rank. A connection that breaks does not count as giving up: the
    others must have timed out, or waited longer than ever before.
    """
    came = _arrivals(case, stream, seq)
    gave_up = [
        (_raised_at(case, standing, stream, seq), standing)
        for standing in waiters
        if standing.by_peers and standing.rank in came
    ]
    if not gave_up:
        return {}
    end, first = min(gave_up, key=lambda one: one[0])
    begin = min(came.values())
    after = [rank for rank, t in came.items() if t > end + case.clocks.uncertainty]
    if not after or first.rank in after:
        return {}
    waited = min(came[rank] for rank in after) - begin
    if not exceptions.gave_up(first.message) and not is_long(case, stream, seq, waited):
        return {}
    return {rank: came[rank] - begin for rank in after}


def late_after_timeout(case: Case, stream: StreamKey) -> tuple[int, Mapping[int, int]] | None:
    """Return the last call of a stream and the ranks that made it after a timeout there.

    The lateness is as in :func:`late`, for ranks that caught their exceptions and finished. None if
    a rank went on with other calls, or if nobody was late.
    """
    members = case.comparison.streams.get(stream, ())
    logs = [case.log(rank) for rank in members]
    lasts = [log.last_call for log in logs if log is not None and log.last_call is not None]
    rows = {(StreamKey(last.group, last.device), last.seq) for last in lasts if last.peer is None}
    if len(lasts) < len(members) or len(rows) != 1 or any(key != stream for key, _ in rows):
        return None
    ((_, seq),) = rows
    came = _arrivals(case, stream, seq)
    gave_up = [
        case.clocks.when(rank, done.t)
        for rank in members
        for done in case.failed(rank, stream)
        if done.seq == seq and exceptions.gave_up(done.error or "")
    ]
    if not gave_up or len(came) < len(members):
        return None
    begin, end = min(came.values()), min(gave_up) + case.clocks.uncertainty
    after = {rank: t - begin for rank, t in came.items() if t > end}
    return (seq, after) if 0 < len(after) < len(came) else None


def held_up_by(case: Case, source: IncompleteRow, rank: int) -> HostWait | None:
    """Return what a rank waited for before it made a call late; None if that is not known."""
    log, call = case.log(rank), source.calls.get(rank)
    if log is None or call is None or log.stall is None or log.stall.t >= call.t:
        return None
    last = case.call(rank, source.stream, source.seq - 1)
    is_between = last is None or last.t < log.stall.t
    return host_waits.seen_in(log, case.evidence) if is_between else None


def _raised_at(case: Case, standing: Standing, stream: StreamKey, seq: int) -> int:
    """Return when a rank's call raised, on the shared clock, ns; else when the rank ended."""
    failed = [
        case.clocks.when(standing.rank, done.t)
        for done in case.failed(standing.rank, stream)
        if done.seq == seq
    ]
    return min(failed, default=standing.end)
