"""Rules 1, 2 and 5: find what may be wrong with a run, before suspects are decided."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from collectrace.align.judging import patience
from collectrace.align.judging.candidate import Candidate, IncompleteRow, Source
from collectrace.align.judging.case import Case
from collectrace.align.judging.closing_send import closes_cycle
from collectrace.align.judging.undelivered import undelivered
from collectrace.align.matching.comparison import ChannelIssue, Divergence
from collectrace.align.ranks.standing import HOST, Standing, Waiting
from collectrace.align.ranks.waitgraph import Cycle, Edge, alike, cycles
from collectrace.align.reading.evidence import ChannelKey, GroupConflict, StreamKey
from collectrace.align.reading.groups import is_local
from collectrace.findings import BY_ATTRIBUTE, Side
from collectrace.ops import ANY_SOURCE, HOLDING
from collectrace.records import Call

IN_INIT: Final = -1
"""Ordinal of the default group if some ranks left no file."""


def candidates(case: Case) -> list[Candidate]:
    """Rule 1: return conflicts, differences, messages, cycles, absences and incomplete calls."""
    circles = deadlocks(case)
    absorbed = {edge for cycle in circles for edge in cycle}
    streams = {edge.waiting.stream for edge in absorbed}
    ranks = {rank for edge in absorbed for rank in (edge.waiting.rank, edge.target[0])}
    in_making = {edge.waiting.group for edge in absorbed if edge.waiting.is_creation}
    found = [
        _of_conflict(case, conflict)
        for conflict in case.comparison.conflicts
        if conflict.name not in in_making
    ]
    found += [_of_conflict(case, conflict) for conflict in _never_started(case)]
    found += [
        _of_row(case, row)
        for row in case.comparison.divergences
        if not _is_empty(row) and not (row.stream in streams and _is_absence_of(ranks, row))
    ]
    found += [_of_row(case, row, is_warning=True) for row in _warnings(case)]
    lost = undelivered(case)
    found += [_of_channel(case, issue) for issue in lost]
    after = {issue.channel for issue in lost}
    circling = {edge.waiting.channel for edge in absorbed}
    found += [
        _of_channel(case, issue)
        for issue in case.comparison.channels
        if (issue.attribute != "absent" or issue.channel not in after)
        and issue.channel not in circling
    ]
    found += [_of_cycle(case, cycle) for cycle in circles]
    spoken_for = {edge.waiting.stream for edge in absorbed if edge.queued}
    found += [row for row in _incomplete_rows(case) if row.stream not in spoken_for]
    return found


# -- rows of streams -------------------------------------------------------------------------


def _of_row(case: Case, row: Divergence, *, is_warning: bool = False) -> Candidate:
    """Rule 2: the first attribute that differs decides the kind; absence comes last."""
    return Candidate(
        what=BY_ATTRIBUTE[row.attribute], source=row, group=row.group,
        t=case.first(row.calls), stream=row.stream, seq=row.seq, sides=case.sides(row),
        is_warning=is_warning,
    )  # fmt: skip


def _is_empty(row: Divergence) -> bool:
    """Whether no rank is known to be absent: only evidence is missing."""
    return row.attribute == "absent" and None not in row.calls.values()


def _warnings(case: Case) -> list[Divergence]:
    """Return the warnings of streams without worse findings, the first of each kind per stream."""
    worse = {row.stream for row in case.comparison.divergences if not _is_empty(row)}
    first: dict[tuple[StreamKey, str, bool], Divergence] = {}
    for row in case.comparison.warnings:
        if row.stream not in worse:
            first.setdefault((row.stream, row.attribute, row.swapped), row)
    return list(first.values())


def _is_absence_of(ranks: set[int], row: Divergence) -> bool:
    """Whether a difference is only an absence of these ranks, which a cycle already shows."""
    absent = {rank for rank, call in row.calls.items() if call is None}
    return row.attribute == "absent" and absent <= ranks


# -- groups and messages ---------------------------------------------------------------------


def _of_conflict(case: Case, conflict: GroupConflict) -> Candidate:
    times = [
        case.clocks.when(ranks[0], asked.t)
        for ranks, asked in conflict.variants
        if asked is not None and ranks
    ]
    sides = [
        replace(side, site=asked.site if asked is not None else None)
        for ranks, asked in conflict.variants
        for side in case.absentees(rank for rank in ranks if rank in case.standings)
    ]
    return Candidate(
        what="group_mismatch", source=conflict,
        group=case.comparison.groups.get(conflict.name), t=min(times, default=0),
        sides=tuple(sides),
    )  # fmt: skip


def _never_started(case: Case) -> list[GroupConflict]:
    """Return conflicts about ranks without a file, if no rank got past ``init_process_group``.

    A rank that took part would have let the others pass, traced or not.
    """
    logs = case.evidence.logs
    asked = {rank: log.groups[-1] for rank, log in logs.items() if log.groups}
    stuck = [
        rank
        for rank, log in logs.items()
        if log.provisional
        or (log.last_call is None and all(g.phase == "asked" for g in log.groups))
    ]
    absent = tuple(rank for rank in case.evidence.missing if rank not in case.evidence.unreadable)
    if not absent or len(stuck) < len(logs) or len(asked) < len(logs):
        return []
    first = min(asked)
    present = (tuple(sorted(asked)), asked[first])
    return [GroupConflict(asked[first].group, (present, (absent, None)), IN_INIT)]


def _of_channel(case: Case, issue: ChannelIssue) -> Candidate:
    ends = ((issue.channel.source, issue.send), (issue.channel.destination, issue.recv))
    sides = [case.side(rank, call) for rank, call in ends if rank in case.standings]
    calls = {rank: call for rank, call in ends if call is not None and rank >= 0}
    return Candidate(
        what="p2p_mismatch" if issue.attribute in ("dtype", "count") else "p2p_unmatched",
        source=issue, group=issue.group, t=case.first(calls), seq=issue.seq,
        sides=tuple(sorted(sides, key=lambda side: side.call is None)),
    )  # fmt: skip


# -- cycles ----------------------------------------------------------------------------------


def deadlocks(case: Case) -> list[Cycle]:
    """Rule 5: return the cycles that are deadlocks: no edge is at or behind a mismatch.

    After a mismatch ranks wait for calls that never come, so the cycle is a consequence. The same
    holds for a message that nearly matches another, unless both are part of the cycle.
    """
    first: dict[StreamKey | ChannelKey, int] = {}
    for row in case.comparison.divergences:
        if row.attribute != "absent":
            first[row.stream] = min(row.seq, first.get(row.stream, row.seq))
    for issue in case.comparison.channels:
        if issue.attribute != "absent":
            first[issue.channel] = min(issue.seq, first.get(issue.channel, issue.seq))
            if issue.is_from_any and issue.recv is not None:
                first[issue.channel._replace(source=ANY_SOURCE)] = issue.recv.seq
    disputed = {conflict.name for conflict in case.comparison.conflicts}
    # Messages that were expected with a wrong tag or from a wrong rank, and nearly match.
    astray = {
        channel: issue
        for issue in case.comparison.channels
        if issue.near is not None
        for channel in (issue.channel, issue.near.channel)
    }
    # Sends that named their receiver by its group rank, and so went to another rank.
    numbered = {
        issue.near.channel
        for issue in case.comparison.channels
        if issue.near is not None and issue.near.numbered is not None
    }

    def is_clean(edge: Edge, cycle: Cycle) -> bool:
        w = edge.waiting
        key = w.channel or w.stream
        if w.what == HOST:
            return True
        if key is None or w.group in disputed or key in numbered:
            return False
        near = astray.get(w.channel) if w.channel is not None else None
        if near is not None and not closes_cycle(near, cycle):
            return False
        row = edge.row if edge.row is not None else w.seq or 0
        return (key not in first or row < first[key]) and _has_lasted(case, edge)

    return [
        cycle
        for cycle in cycles(case.graph)
        if is_of_group_creations(case, cycle) or all(is_clean(e, cycle) for e in cycle)
    ]


def is_of_group_creations(case: Case, cycle: Cycle) -> bool:
    """Whether all ranks of a cycle are creating groups by their members alone, each another.

    If it is one group, or two ranks, they disagree about a group, which is more specific.
    """
    groups = [case.comparison.groups.get(edge.waiting.group) for edge in cycle]
    members = {frozenset(group.ranks) for group in groups if group is not None}
    return (
        len(members) == len(cycle) > 2
        and all(edge.waiting.is_creation for edge in cycle)
        and all(is_local(edge.waiting.group) for edge in cycle)
    )


def _has_lasted(case: Case, edge: Edge) -> bool:
    """Whether a wait that may end by itself, such as for a busy device, has lasted too long."""
    w = edge.waiting
    if not edge.queued or w.stream is None or w.seq is None:
        return True
    return patience.is_overdue(case, w.stream, w.seq, [case.standings[w.rank]])


def _of_cycle(case: Case, cycle: Cycle) -> Candidate:
    waits = [edge.waiting for edge in cycle]
    start = min(range(len(cycle)), key=lambda n: (waits[n].what == HOST, waits[n].rank))
    cycle = (*cycle[start:], *cycle[:start])
    first = cycle[0].waiting
    return Candidate(
        what="deadlock", source=cycle,
        group=case.comparison.groups.get(first.group),
        t=max(edge.waiting.since for edge in cycle), stream=first.stream, seq=first.seq,
        sides=tuple(
            _side(case, edge.waiting, alike(case.graph, cycle, n))
            for n, edge in enumerate(cycle)
        ),
    )  # fmt: skip


def _side(case: Case, w: Waiting, ranks: tuple[int, ...]) -> Side:
    side, asked = case.side(w.rank, awaited_call(case, w)), case.asked(w)
    side = replace(side, ranks=ranks)
    return side if asked is None else replace(side, site=asked.site)


def awaited_call(case: Case, w: Waiting) -> Call | None:
    """Return the call that a thread waits for."""
    key = w.channel or w.stream
    return case.call(w.rank, key, w.seq) if key is not None and w.seq is not None else None


# -- incomplete rows -------------------------------------------------------------------------------


def _incomplete_rows(case: Case) -> Iterator[Candidate]:
    """Yield calls that all ranks have made and that do not complete."""
    waiting: dict[StreamKey, list[tuple[int, Standing]]] = {}
    for standing in case.standings.values():
        for w in standing.waiting:
            if w.stream is not None and w.seq is not None and standing.state != "finished":
                waiting.setdefault(w.stream, []).append((w.seq, standing))
    diverged = {row.stream for row in case.comparison.divergences}
    for stream, waiters in waiting.items():
        members = case.comparison.streams.get(stream, ())
        logs = [case.log(rank) for rank in members]
        seq = min(seq for seq, _ in waiters)
        if stream in diverged or {*members} <= case.evidence.without_members:
            continue  # whoever else is a member may not have made it
        if any(log is None or log.last_seq.get(stream, 0) < seq for log in logs):
            continue
        yield from _incomplete(case, stream, seq, [s for n, s in waiters if n == seq], members)
    for stream, members in case.comparison.streams.items():
        if stream not in diverged and stream not in waiting:
            yield from _given_up(case, stream, members)


def _given_up(case: Case, stream: StreamKey, members: Sequence[int]) -> Iterator[Candidate]:
    """Yield the last call of a stream if some ranks made it after others had given up.

    It must be the last call of all of them: if they continued together, they recovered.
    """
    found = patience.late_after_timeout(case, stream)
    if found is None:
        return
    seq, late = found
    calls = {rank: case.call(rank, stream, seq) for rank in members}
    yield Candidate(
        what="stall", source=IncompleteRow(stream, seq, calls, late=late),
        group=case.comparison.groups.get(stream.group), t=case.first(calls), stream=stream,
        seq=seq, sides=_sides_by_state(case, calls, tuple(late)),
    )  # fmt: skip


def _incomplete(
    case: Case, stream: StreamKey, seq: int, waiters: Sequence[Standing], members: Sequence[int]
) -> Iterator[Candidate]:
    calls = {rank: case.call(rank, stream, seq) for rank in members}
    if any(call is not None and _has_returned(case, rank, call) for rank, call in calls.items()):
        return  # it has completed; who still waits lost the connection to a peer
    failed = tuple(s.rank for s in waiters if s.state == "raised" and not s.by_peers)
    others = [s for s in waiters if s.rank not in failed and s.state != "died"]
    if not others:
        return  # each raised by itself, as ranks with the same bug do
    if not failed and not patience.is_overdue(case, stream, seq, others):
        return
    late = {} if failed else patience.late(case, stream, seq, others)
    source: Source = IncompleteRow(stream, seq, calls, failed, late)
    yield Candidate(
        what="missing_call" if failed else "stall", source=source,
        group=case.comparison.groups.get(stream.group), t=case.first(calls), stream=stream,
        seq=seq, sides=_sides_by_state(case, calls, failed or tuple(late)),
    )  # fmt: skip


def _has_returned(case: Case, rank: int, call: Call) -> bool:
    """Whether a rank made another call after one that returns only when all ranks have called.

    An exception of that call does not count.
    """
    log, holds = case.log(rank), call.op in HOLDING and not call.async_
    last = log.last_call if log is not None else None
    if not holds or last is None or last.thread != call.thread or last.t <= call.t:
        return False
    return all(
        done.seq != call.seq for done in case.failed(rank, StreamKey(call.group, call.device))
    )


def _sides_by_state(
    case: Case, calls: dict[int, Call | None], failed: tuple[int, ...]
) -> tuple[Side, ...]:
    by_state: dict[tuple[bool, str], list[int]] = {}
    for rank in calls:
        by_state.setdefault((rank in failed, case.standings[rank].state), []).append(rank)
    return tuple(
        Side(ranks=tuple(ranks), call=calls[ranks[0]], state=case.standings[ranks[0]].state)
        for _, ranks in sorted(by_state.items())
    )
