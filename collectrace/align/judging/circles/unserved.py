"""A rank that gives all others of a kind something in a round, and nothing to the one that waits.

As where work is handed out, and who gets none is to be told so. The one did in the round what its
like did, and waits in the receive with which theirs began, too; what it had sent has been taken.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from collectrace.align.judging import choices
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.candidates import along_circle
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.uneven_round import SOME, closings, per_round
from collectrace.align.matching import programs
from collectrace.align.matching.deviations import CAN_OUTVOTE
from collectrace.align.ranks.waitgraph import Edge
from collectrace.align.reading.evidence import ChannelKey, RankLog, StreamKey
from collectrace.align.reading.vocabulary import CallPlace
from collectrace.records import Call


class Unserved(NamedTuple):
    """A round in which one rank alone of its like got nothing."""

    hub: int
    """Who gave the others something, and came to the collective that ends the round."""
    waiter: int
    call: Call
    """The message that it waits for."""
    likes: tuple[int, ...]
    """Those who got something, and came to the collective; at least two."""
    row: Call
    """The hub's call of that."""
    rounds: int
    """Before, in each of which all of them got something; at least two."""

    @property
    def rank(self) -> int:
        """Who did otherwise than in those rounds."""
        return self.hub


@once
def unserved(case: Case, candidate: Candidate) -> Unserved | None:
    """The rank of a circle that another left out in this round, as it never had; else None."""
    return along_circle(case, candidate, _of_edge)


def _of_edge(case: Case, edge: Edge, after: Edge) -> Unserved | None:
    channel, stream, seq = edge.waiting.channel, after.waiting.stream, after.waiting.seq
    if channel is None or channel.source != after.waiting.rank or stream is None or seq is None:
        return None
    hub, mine = case.log(channel.source), case.log(channel.destination)
    row = case.call(channel.source, stream, seq)
    call = mine.channel_call(channel, edge.waiting.seq or 0) if mine is not None else None
    if hub is None or mine is None or row is None or call is None:
        return None
    if not (programs.is_whole(hub) and programs.is_whole(mine)):
        return None
    ends = closings(hub, stream, row)
    gave = {
        key.destination: per_round(hub, key, stream, ends)
        for key in hub.last_channel_seq
        if key._replace(destination=mine.rank) == channel
    }
    got = per_round(mine, channel, stream, ends)
    *before, now = gave.pop(mine.rank, None) or [0]
    likes = sorted(gave)
    if len(ends) < SOME or len(likes) + 1 < CAN_OUTVOTE or now or got != [*before, 1]:
        return None
    if not all(before) or not all(given is not None and all(given) for given in gave.values()):
        return None  # it is nothing new that one of them gets nothing
    logs = [log for rank in likes if (log := case.log(rank)) is not None]
    if len(logs) < len(likes) or any(log.last_seq.get(stream, 0) < seq for log in logs):
        return None
    if not _took_all(hub, mine):
        return None
    if not all(programs.is_whole(log) and _is_alike(mine, log, stream, ends[-1]) for log in logs):
        return None
    if not _is_bound(case, mine.rank, call, case.call(mine.rank, stream, ends[-1])):
        return None  # it may have been its part to leave it out
    return Unserved(hub.rank, mine.rank, call, tuple(likes), row, len(ends))


def _is_bound(case: Case, rank: int, call: Call, last: Call | None) -> bool:
    """Whether nothing leads a rank past a call, the first behind ``last``, which ended a round."""
    if last is None:
        return False
    return (
        choices.of_call(case, case.stack(rank, call), case.stack(rank, last), is_first=True) == []
    )


def _took_all(hub: RankLog, mine: RankLog) -> bool:
    """Whether a rank has taken all that another sent it: no question is left without an answer."""
    return all(
        hub.last_channel_seq.get(key, 0) + hub.taken(key) >= sent
        for key, sent in mine.last_channel_seq.items()
        if (key.source, key.destination) == (mine.rank, hub.rank)
    )


def _is_alike(mine: RankLog, like: RankLog, stream: StreamKey, row: int) -> bool:
    """Whether a rank did since a row, in which it is in a receive, what another began with.

    From the same lines; and has received nothing before.
    """
    done = _since(mine, stream, row)
    has_received = any(op == "recv" for op, _ in done[:-1])
    return not has_received and _since(like, stream, row)[: len(done)] == done


def _since(log: RankLog, stream: StreamKey, row: int) -> list[CallPlace]:
    """What a rank did since a row of a stream: each op, with the frames above it."""
    rows, shift = log.rows(stream)
    begin = rows.offset[rows.position(row - shift)]
    found: list[tuple[int, int]] = []
    for key in programs.keys_of(log):
        rows = log.channel_rows(key) if isinstance(key, ChannelKey) else log.rows(key)[0]
        first = bisect_right(rows.offset, begin)
        found += zip(rows.offset[first:], rows.appearance[first:], strict=True)
    known = rows.vocabulary.appearances
    return [known[n].place for _, n in sorted(found)]
