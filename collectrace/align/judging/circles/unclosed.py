"""A rank that ended its part of a round without the message by which all end theirs.

As where workers report to a hub, which waits for the report of each, and each says when it is done.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.may_be_told import may_be_told
from collectrace.align.judging.own_round import program_of
from collectrace.align.judging.uneven_round import SOME, closings, per_round
from collectrace.align.matching import programs
from collectrace.align.matching.deviations import CAN_OUTVOTE
from collectrace.align.reading.evidence import ChannelKey, RankLog, StreamKey
from collectrace.ops import ANY_SOURCE
from collectrace.records import Call

_Frames = tuple[str, ...]


class Unclosed(NamedTuple):
    """A round to whose end one rank came without the message by which each ended it before."""

    rank: int
    usual: Call
    """Its last such message."""
    hub: int
    """Who waits for one."""
    likes: tuple[int, ...]
    """Those who ended this round so; at least two."""
    row: Call
    """The collective to which the rank came instead."""
    rounds: int
    """Before, in each of which each of them ended so."""
    is_straight: bool
    """It did nothing in this round before; else it did, and made as many as its like till then."""


@once
def unclosed(case: Case, candidate: Candidate) -> Unclosed | None:
    """The one rank of those that report to a hub which did not say that it was done; else None.

    All others of its like ended this round as ever. It came to the end of it straight from that of
    the one before, so that nobody can have told it to leave the message out; or each made as many
    in each round, for no more of which the hub asks, and no condition reads what that had sent.
    """
    for edge in candidate.cycle:
        channel = edge.waiting.channel
        if channel is None or channel.destination != edge.waiting.rank:
            continue
        for after in (
            other.waiting for other in candidate.cycle if other.waiting.stream is not None
        ):
            assert after.stream is not None
            row = case.call(after.rank, after.stream, after.seq or 0)
            if row is not None:
                return _of_hub(case, channel, after.stream, row)
    return None


def _of_hub(case: Case, channel: ChannelKey, stream: StreamKey, row: Call) -> Unclosed | None:
    ways = _ways_to(case, channel)
    if len(ways) < CAN_OUTVOTE:
        return None
    ended: dict[int, list[_Frames | None]] = {}
    for rank, way in ways.items():
        log = case.evidence.logs[rank]
        if not programs.is_whole(log) or log.last_seq.get(stream, 0) != row.seq:
            return None  # it may still be to come
        ended[rank] = _last_of_rounds(log, way, stream, row)
    lengths = {len(own) for own in ended.values()}
    before = {frames for own in ended.values() for frames in own[:-1]}
    if len(lengths) != 1 or max(lengths) < SOME or len(before) != 1 or None in before:
        return None
    (usual,) = before
    without = [rank for rank, own in ended.items() if own[-1] != usual]
    if len(without) != 1 or channel.source not in (ANY_SOURCE, without[0]):
        return None
    rank = without[0]
    log, key = case.evidence.logs[rank], ways[rank]
    call = log.channel_call(key, log.last_channel_seq[key])
    likes = tuple(other for other in ended if other != rank)
    if call is None:
        return None
    is_straight = channel.source < 0 and _came_straight(case, rank, stream)
    found = Unclosed(
        rank, call, channel.destination, likes, row, max(lengths) - 1, is_straight=is_straight
    )
    return found if is_straight or _is_one_less(case, found, channel, ways, stream) else None


def _ways_to(case: Case, channel: ChannelKey) -> dict[int, ChannelKey]:
    """Who has sent messages like those of a channel to its receiver, and each in which channel."""
    return case.sent_to_any(channel._replace(source=ANY_SOURCE))


def _is_one_less(
    case: Case,
    found: Unclosed,
    channel: ChannelKey,
    ways: Mapping[int, ChannelKey],
    stream: StreamKey,
) -> bool:
    """Whether one alone made fewer in this round than ever, and was not told so by the hub.

    The others made as many as in each round before, and the hub asks for no more.
    """
    hub, mine = case.log(found.hub), program_of(case, found.rank)
    if hub is None or mine is None or not programs.is_whole(hub) or found.rounds < SOME:
        return False
    ends = closings(mine.log, stream, found.row)
    asked = per_round(hub, channel, stream, ends)
    sent = {
        rank: per_round(case.evidence.logs[rank], way, stream, ends) for rank, way in ways.items()
    }
    *before, now = sent.pop(found.rank) or [0]
    others = [len(set(counts or ())) == 1 for counts in sent.values()]
    is_less = len(set(before)) == 1 and now < before[0] and all(others)
    if not is_less or asked is None or len({*asked[:-1]}) != 1 or asked[-1] > asked[0]:
        return False
    return not may_be_told(case, mine, found.usual, found.row, found.hub)


def _last_of_rounds(
    log: RankLog, channel: ChannelKey, stream: StreamKey, row: Call
) -> list[_Frames | None]:
    """Per round the frames above a rank's last message of a channel, the present one last.

    None of a round without.
    """
    rows, shift = log.rows(stream)
    offsets = dict(zip(rows.seq, rows.offset, strict=True))
    bounds = [offsets.get(seq - shift, 0) for seq in (*closings(log, stream, row), row.seq)]
    messages = log.channel_rows(channel)
    known = messages.vocabulary.appearances
    found: list[_Frames | None] = [None] * len(bounds)
    for offset, appearance in zip(messages.offset, messages.appearance, strict=True):
        n = bisect_right(bounds, offset)
        if n < len(bounds):
            found[n] = known[appearance].where
    return found


def _came_straight(case: Case, rank: int, stream: StreamKey) -> bool:
    """Whether a rank's last two calls are rows of a stream."""
    program = program_of(case, rank)
    if program is None:
        return False
    last: Sequence[int] = program.sources[-2:]
    return len(last) == SOME and all(program.keys[which] == stream for which in last)
