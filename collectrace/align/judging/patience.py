"""How long ranks have waited for others, and when that is long enough to be proof.

That a rank did not come to a collective proves nothing by itself: a healthy job that is killed
everywhere at once has ranks one call apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from collectrace import exceptions
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once_of
from collectrace.align.judging.closing_send import ENDS
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.align.ranks.standing import Standing, Waiting
from collectrace.align.reading.evidence import GroupConflict, RankLog, StreamKey

PATIENCE: Final = 5_000_000_000
"""ns that a rank may always wait."""

_SLOWER: Final = 5
"""How many times the longest wait of a stream so far a rank may wait."""

_LOOK_BACK: Final = 4000
"""Calls whose waits are measured, over all ranks of a group."""


def waited(case: Case, candidate: Candidate, until: int | None = None) -> int:
    """The longest that a rank has been waiting at a candidate's place, ns; 0: nobody waits.

    ``until``: when waits ceased to prove anything; None: they never did.
    """
    times = [
        (standing.end if until is None else min(standing.end, until)) - w.since
        for rank in _waiters(candidate)
        for standing in (case.standings[rank],)
        for w in standing.waiting
        if is_there(w, candidate)
    ]
    return max(times, default=0)


def _waiters(candidate: Candidate) -> Sequence[int]:
    """Who came to a candidate's place; and who sent the message that was meant for it."""
    source = candidate.source
    if not isinstance(source, ChannelIssue) or source.near is None:
        return candidate.present
    return (*candidate.present, source.near.channel.source)


def is_there(w: Waiting, candidate: Candidate) -> bool:
    """Whether a thread waits at a candidate's place, or at a later one of its stream."""
    source = candidate.source
    if isinstance(source, ChannelIssue):
        if source.near is not None and w.channel == source.near.channel:
            return source.near.send is not None and (w.seq or 0) >= source.near.send.seq
        if source.near is not None and source.near.differs in ENDS and w.channel is not None:
            # What else the two exchange in that iteration goes astray with it.
            ends = {source.channel.source, source.channel.destination}
            if {w.channel.source, w.channel.destination} == ends and w.channel != source.channel:
                return True
        # Its ends may bear different numbers where receives from any source have taken some.
        own = source.recv if w.rank == source.channel.destination else source.send
        return w.channel == source.channel and (w.seq or 0) >= (own.seq if own else source.seq)
    if isinstance(source, GroupConflict):
        # Of groups that share a name each has its members behind it; who is in one waits for all.
        is_own = source.own and w.group.startswith(f"{source.name} [")
        return is_own or (w.seq is None and w.group == source.name)
    if candidate.stream is None or candidate.seq is None:
        return False
    return w.stream == candidate.stream and (w.seq or 0) >= candidate.seq


def gave_up(case: Case, candidate: Candidate) -> bool:
    """Whether a rank raised there because it had waited in vain, or lost its peer."""
    return any(
        (standing.by_peers and any(is_there(w, candidate) for w in standing.waiting))
        or failed_at(case, candidate, standing.rank)
        for standing in (case.standings[rank] for rank in _waiters(candidate))
    )


def failed_at(case: Case, candidate: Candidate, rank: int) -> bool:
    """Whether a rank's message at a candidate's place timed out, whatever the rank did then."""
    source = candidate.source
    if not isinstance(source, ChannelIssue):
        return False
    own = source.recv if rank == source.channel.destination else source.send
    return own is not None and any(
        done.seq == own.seq and exceptions.gave_up(done.error or "")
        for done in case.failed_messages(rank, source.channel)
    )


def is_of_hang(case: Case, candidate: Candidate) -> bool:
    """Whether ranks wait by nothing but dumps that are taken for those of a hang.

    torch writes a dump when a call has timed out, or when it is asked, and that is mostly for a
    hang. If a dump shows when it was made, the time decides. If the call has completed on another
    rank, the dumps were made at different times.
    """
    logs = [
        standing.log
        for standing in (case.standings[rank] for rank in _waiters(candidate))
        if any(is_there(w, candidate) for w in standing.waiting)
    ]
    stream, seq = candidate.stream, candidate.seq or 0
    return are_undated(logs) and (stream is None or not _has_completed(case, stream, seq))


def are_undated(logs: Sequence[RankLog | None]) -> bool:
    """Whether these are dumps of another tool of which it is not known when they were made."""
    return bool(logs) and all(
        log is not None and log.imported is not None and not log.imported.written for log in logs
    )


def _has_completed(case: Case, stream: StreamKey, seq: int) -> bool:
    """Whether a call has completed on one of its ranks."""
    logs = (case.log(rank) for rank in case.comparison.streams.get(stream, ()))
    dones = (log.dones.get(stream) for log in logs if log is not None)
    return any(done is not None and done.seq >= seq for done in dones)


def is_long(case: Case, stream: StreamKey | None, seq: int, ns: int) -> bool:
    """Whether a wait is longer than anything this stream has seen, by far.

    On a live log it must be longer than what counts as a stall there, too: a straggler may come.
    """
    longest = _longest_wait(case, stream, seq) if stream is not None else 0
    if ns <= max(PATIENCE, _SLOWER * longest):
        return False
    live = [s.log for s in case.standings.values() if s.ended == "alive" and s.log is not None]
    return ns > max((round(log.header.stall_after * 1e9) for log in live), default=0)


def _longest_wait(case: Case, stream: StreamKey, seq: int) -> int:
    """Between the first rank that came to a row and the last, of the rows just before; ns."""
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


def is_still(case: Case, stream: StreamKey, seq: int, waiters: Sequence[Standing]) -> bool:
    """Whether a row that everybody has reached should have completed long ago."""
    there = [(s, w) for s in waiters for w in _waits(case, s.rank).get(stream, ())]
    if any(s.by_peers for s, _ in there):
        return True
    arrived = [
        issued
        for rank in case.comparison.streams.get(stream, ())
        if (issued := case.issued(rank, case.call(rank, stream, seq))) is not None
    ]
    told = [s.end for s, w in there if w.observed or w.what == "device"]
    if not told or not arrived or _is_in_passing(case, stream, seq, there):
        return False
    return are_undated([s.log for s, _ in there]) or is_long(
        case, stream, seq, max(told) - max(arrived)
    )


@once_of
def _waits(case: Case, rank: int) -> Mapping[StreamKey | None, Sequence[Waiting]]:
    """Return by stream what the threads of a rank wait for: they may be thousands."""
    found: dict[StreamKey | None, list[Waiting]] = {}
    for w in case.standings[rank].waiting:
        found.setdefault(w.stream, []).append(w)
    return found


def _is_in_passing(
    case: Case, stream: StreamKey, seq: int, there: Sequence[tuple[Standing, Waiting]]
) -> bool:
    """Whether another tool's dumps may have been asked for while a row was completing.

    Then a call on its way looks as one that hangs: where another rank's has completed, or none was
    pending for as long as its group allows.
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
    """Ranks that came to a row when others had given up waiting for it, and by how much.

    By rank, ns after the first rank came. A connection that breaks while ranks come one by one
    makes nobody late: the others must have timed out, or waited for longer than ever before.
    """
    came = {
        rank: issued
        for rank in case.comparison.streams.get(stream, ())
        if (issued := case.issued(rank, case.call(rank, stream, seq))) is not None
    }
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


def late_and_alone(case: Case, stream: StreamKey) -> tuple[int, Mapping[int, int]] | None:
    """The last row of a stream, and the ranks that came to it when a call of it had timed out.

    As :func:`late`, of ranks that caught their exceptions and ended well. None where a rank went on
    with other calls, or where all came in time.
    """
    members = case.comparison.streams.get(stream, ())
    logs = [case.log(rank) for rank in members]
    lasts = [log.last_call for log in logs if log is not None and log.last_call is not None]
    rows = {(StreamKey(last.group, last.device), last.seq) for last in lasts if last.peer is None}
    if len(lasts) < len(members) or len(rows) != 1 or any(key != stream for key, _ in rows):
        return None
    ((_, seq),) = rows
    came = {rank: case.issued(rank, case.call(rank, stream, seq)) for rank in members}
    gave_up = [
        case.clocks.when(rank, done.t)
        for rank in members
        for done in case.failed(rank, stream)
        if done.seq == seq and exceptions.gave_up(done.error or "")
    ]
    times = [t for t in came.values() if t is not None]
    if not gave_up or len(times) < len(came):
        return None
    after = {
        rank: t - min(times)
        for rank, t in came.items()
        if t is not None and t > min(gave_up) + case.clocks.uncertainty
    }
    return (seq, after) if after else None


def _raised_at(case: Case, standing: Standing, stream: StreamKey, seq: int) -> int:
    """When a rank's call at a row raised, on the shared clock; else when it ended."""
    failed = [
        case.clocks.when(standing.rank, done.t)
        for done in case.failed(standing.rank, stream)
        if done.seq == seq
    ]
    return min(failed, default=standing.end)
