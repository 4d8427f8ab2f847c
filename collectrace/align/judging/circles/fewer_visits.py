"""A rank that came to a line of messages less often in a round than all of its like.

As where each rank leaves a loop of halo exchanges by a test of its own, or one of several workers
reports to the server less often than the server asks each. How often they come there may change
from round to round: but in each of those before, which a collective ended, it was equally often.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from collectrace import ops
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.candidates import along_circle
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.circles.told_less import Frames, is_its_part, is_told_less
from collectrace.align.judging.own_round import program_of
from collectrace.align.judging.uneven_round import closings, per_round
from collectrace.align.matching import programs
from collectrace.align.matching.deviations import CAN_OUTVOTE
from collectrace.align.ranks.waitgraph import Edge
from collectrace.align.reading.evidence import ChannelKey, RankLog, StreamKey
from collectrace.records import Call


class FewerVisits(NamedTuple):
    """A round in which one rank alone came to a line less often than its like."""

    rank: int
    call: Call
    """The last message that it made there."""
    behind: Call
    """The collective to which it went on, which ends the round."""
    made: int
    """How often it came to the line in this round; each of its like at least once more."""
    likes: tuple[int, ...]
    """Who came there as often as it did in each round before; at least two."""
    waiter: int
    """Who waits for a message of it: one of its like, or the one with which all exchange theirs."""
    waiting: Call
    channel: ChannelKey
    rounds: int
    """Before, in which they came there; at least one."""


@once
def fewer_visits(case: Case, candidate: Candidate) -> FewerVisits | None:
    """Who of a circle alone came to a line less often in this round; else None."""
    return along_circle(case, candidate, _of_edge)


def _of_edge(case: Case, edge: Edge, after: Edge) -> FewerVisits | None:
    """Of who waits in a message for one that is in the collective behind the round."""
    channel, waiter, rank = edge.waiting.channel, edge.waiting.rank, after.waiting.rank
    stream, row = after.waiting.stream, after.waiting.seq
    if channel is None or stream is None or row is None:
        return None
    info, program = case.comparison.groups.get(stream.group), program_of(case, rank)
    behind = case.call(rank, stream, row)
    is_of_both = {channel.source, channel.destination} == {waiter, rank}
    if not is_of_both or info is None or program is None or behind is None:
        return None
    mine, ends = program.log, closings(program.log, stream, behind)
    logs = in_round(case, info.ranks, stream, range(max(ends, default=row), row + 1))
    if waiter not in logs or not ends:
        return None
    waiting = logs[waiter].channel_call(channel, edge.waiting.seq or 0)
    asked, given = (per_round(log, channel, stream, ends) for log in (logs[waiter], mine))
    if waiting is None or asked is None or given is None or not any(given):
        return None
    if asked[:-1] != given[:-1]:
        return None  # it is nothing new that they do not come out even
    where = _due(mine, channel, given)
    both = {one: _visits(log, where, stream, ends) for one, log in logs.items()}
    compared = (_compared({one: made[n] for one, made in both.items()}, rank) for n in (0, 1))
    found = next((one for one in compared if one is not None and one.others <= {waiter}), None)
    if found is None or not where:
        return None
    ways = {one: _channel_of(one, channel, waiter) for one in found.likes}
    if found.others and not _gave(logs, ways, stream, ends, asked[-1]):
        return None
    call, since = _latest(mine, channel, where), case.call(rank, stream, ends[-1])
    if call is None or call.thread != behind.thread:
        return None  # calls of several threads have no order
    if since is None or behind.op in ops.ROOTED:
        return None  # a rank may get past it alone
    if is_its_part(case, where) or is_told_less(case, program, (call, behind), since, where):
        return None
    return FewerVisits(
        rank, call, behind, found.now, found.likes, waiter, waiting, channel, found.rounds
    )


class _Compared(NamedTuple):
    now: int
    likes: tuple[int, ...]
    others: set[int]
    """Who never came there."""
    rounds: int


def _compared(visits: Mapping[int, Sequence[int]], rank: int) -> _Compared | None:
    """A rank beside its like; None unless all that ever came there are, and came more often."""
    *before, now = visits[rank]
    rest = {one: made for one, made in visits.items() if one != rank}
    likes = tuple(one for one, (*had, has) in rest.items() if had == before and has > now)
    others = {*rest} - {*likes}
    if len(likes) + 1 < CAN_OUTVOTE or not any(before) or any(any(rest[one]) for one in others):
        return None
    return _Compared(now, likes, others, sum(map(bool, before)))


def in_round(
    case: Case, ranks: Sequence[int], stream: StreamKey, rows: range
) -> dict[int, RankLog]:
    """The logs of a group; empty unless each is whole, of one that waits, and ends at such rows."""
    logs = {rank: log for rank in ranks if (log := case.log(rank)) is not None}
    is_known = len(logs) == len(ranks) and all(
        programs.is_whole(log)
        and case.standings[rank].waiting
        and log.last_seq.get(stream, 0) in rows
        for rank, log in logs.items()
    )
    return logs if is_known else {}


def _due(log: RankLog, channel: ChannelKey, given: Sequence[int]) -> Frames:
    """The frames above the message of a channel that a rank would have made next in this round.

    By the latest round in which it made so many; where it never did, those above its last.
    """
    *before, now = given
    ends = accumulate(before)
    at = [end - n + now for end, n in zip(ends, before, strict=True) if n > now]
    rows = log.channel_rows(channel)
    return rows.vocabulary.appearances[rows.appearance[at[-1] if at else -1]].where


def _visits(
    log: RankLog, where: Frames, stream: StreamKey, ends: Sequence[int]
) -> tuple[list[int], list[int]]:
    """How often a rank came to a line in each round, the present one last: counted in two ways.

    As often as it made messages there of the channel of which it made most, whoever has how many
    neighbours; and as often as it sent there, or received, to whomever it was each time.
    """
    rows, shift = log.rows(stream)
    bounds = [rows.offset[rows.position(row - shift)] for row in ends]
    rounds = range(len(bounds) + 1)
    most, ways = [0 for _ in rounds], {True: [0 for _ in rounds], False: [0 for _ in rounds]}
    for channel in log.last_channel_seq:
        own = log.channel_rows(channel)
        known = own.vocabulary.appearances
        made = Counter(
            bisect_right(bounds, offset)
            for offset, n in zip(own.offset, own.appearance, strict=True)
            if known[n].where == where
        )
        is_sent = channel.source == log.rank
        most = [max(most[n], made[n]) for n in rounds]
        ways[is_sent] = [ways[is_sent][n] + made[n] for n in rounds]
    return most, [max(sent, got) for sent, got in zip(ways[True], ways[False], strict=True)]


def _channel_of(rank: int, channel: ChannelKey, waiter: int) -> ChannelKey:
    """A channel like that of one who waits, with another rank at its other end."""
    if channel.source == waiter:
        return channel._replace(destination=rank)
    return channel._replace(source=rank)


def _gave(
    logs: Mapping[int, RankLog],
    ways: Mapping[int, ChannelKey],
    stream: StreamKey,
    ends: Sequence[int],
    asked: int,
) -> bool:
    """Whether some have made as many messages in this round, each in its channel, as are asked."""
    counts = [per_round(logs[rank], way, stream, ends) for rank, way in ways.items()]
    return all(made is not None and made[-1] >= asked for made in counts)


def _latest(log: RankLog, channel: ChannelKey, where: Frames) -> Call | None:
    """A rank's latest message of a channel from a line."""
    rows = log.channel_rows(channel)
    known = rows.vocabulary.appearances
    at = (n for n in reversed(range(len(rows))) if known[rows.appearance[n]].where == where)
    return next((log.channel_call(channel, rows.seq[n]) for n in at), None)
