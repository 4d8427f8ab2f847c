"""One rank that alone made a message more, or less, in a round than all of its like did.

All others of a group are in the collective behind the round, one of them awaited in a message. So
the round is over for all but that one, and what each exchanged in it can be counted. Nothing where
those of a kind have ever differed in a round; nor where a collective may have told each rank of
what it was to exchange.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from collectrace.align.judging.announced import carries_numbers
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.candidates import along_circle
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.circles.round_tally import (
    Message,
    RoundTally,
    is_of_messages_alone,
    round_tally,
)
from collectrace.align.matching import habit, programs
from collectrace.align.matching.deviations import CAN_OUTVOTE
from collectrace.align.ranks.standing import Waiting
from collectrace.align.ranks.waitgraph import Edge
from collectrace.align.reading import chains, statements
from collectrace.align.reading.evidence import ChannelKey, RankLog, StreamKey
from collectrace.align.reading.vocabulary import CallPlace
from collectrace.records import Call
from collectrace.signature import is_user

How = Literal["left out", "again", "new", "met"]
"""``left out``: what all of its like made; else it made more than they did. ``again``: at lines to
which all of them had come in rounds before, together; else from one to which none had ever come:
``new``, it waits there; ``met``, it got what others meant for the exchange behind that."""


class OddTally(NamedTuple):
    """A round in which one rank alone departed from what its like did."""

    rank: int
    call: Call
    """What it made and they did not; else the last that it made of what it left out."""
    usual: Call
    """The last that it made from a line of its like; of what is ``new``, or was ``met``, to compare
    it with."""
    how: How
    likes: tuple[int, ...]
    """Who did alike till then, and among themselves in this round; at least two."""
    waiter: int
    waiting: Call
    """The message that is awaited in vain."""
    peer: int
    """Of whom."""
    row: Call
    """The collective in which all but the waiter are."""
    rounds: int
    """Before, in each of which those alike exchanged something at the same lines."""


@once
def odd_tally(case: Case, candidate: Candidate) -> OddTally | None:
    """Who alone departed from what its like exchanged in the round of a circle of two."""
    if len(candidate.cycle) != 2:
        return None
    return along_circle(case, candidate, _of_edges)


class _Round(NamedTuple):
    """A round that is over for all of a group but one, which waits in a message."""

    case: Case
    tallies: Mapping[int, RoundTally]
    waiter: int
    peer: int
    channel: ChannelKey
    waits_at: CallPlace
    waiting: Call
    row: Call


def _of_edges(case: Case, edge: Edge, after: Edge) -> OddTally | None:
    waiting, behind = edge.waiting, after.waiting
    if waiting.channel is None or behind.stream is None or behind.seq is None:
        return None
    now = _round(case, waiting, behind.stream, behind.seq)
    return (_made_more(now) or _made_less(now)) if now is not None else None


def _round(case: Case, waiting: Waiting, stream: StreamKey, row: int) -> _Round | None:
    """The round before a row, if all of its group but one have come to that and wait there."""
    info, waiter, channel = case.comparison.groups.get(stream.group), waiting.rank, waiting.channel
    if info is None or channel is None or channel.source < 0 or len(info.ranks) < CAN_OUTVOTE:
        return None
    tallies = {}
    for rank in info.ranks:
        log, waits = case.log(rank), case.standings[rank].waiting
        last = row - 1 if rank == waiter else row
        if log is None or not programs.is_whole(log) or log.last_seq.get(stream, 0) != last:
            return None
        if len(waits) != 1 or (rank != waiter and (waits[0].stream, waits[0].seq) != (stream, row)):
            return None
        if not is_of_messages_alone(log, stream, row) or _may_be_told(log):
            return None
        tallies[rank] = round_tally(log, stream, row)
    if {channel.source, channel.destination} - {*tallies} or waiter not in tallies:
        return None
    mine, peer = tallies[waiter], channel.source + channel.destination - waiter
    made = [m for m in mine.now if (m.channel, m.seq) == (channel, waiting.seq)]
    asked, behind = mine.log.channel_call(channel, waiting.seq or 0), case.call(peer, stream, row)
    if not made or asked is None or behind is None:
        return None
    return _Round(case, tallies, waiter, peer, channel, made[0].place, asked, behind)


def _may_be_told(log: RankLog) -> bool:
    """Whether a collective of the user's has ever carried numbers that may tell who does what."""
    return any(
        is_user(call) and carries_numbers(call)
        for rows in (log.rows(key)[0] for key in log.last_seq)
        for call in (rows.vocabulary.examples[n] for n in set(rows.meaning))
    )


def _made_more(now: _Round) -> OddTally | None:
    """Of a waiter that alone exchanged more than its like, all others as ever among themselves."""
    mine = now.tallies[now.waiter]
    likes, common = _alike(now, mine)
    extra = mine.places - common
    if len(likes) + 1 < CAN_OUTVOTE or not extra or not _is_even(now, mine, extra):
        return None
    is_again = _was_of_all(mine, extra)
    usual = () if is_again else mine.latest(common)
    if not _is_answered(now, mine, extra, usual):
        return None
    if not is_again and not _is_one_exchange_more(now, mine, extra, usual):
        return None
    first = next(one for one in mine.now if one.place in extra)
    call = mine.log.channel_call(first.channel, first.seq)
    one = call if is_again else mine.call(usual[0].place)
    how: How = "again" if is_again else "new" if now.waits_at in extra else "met"
    return _found(now, mine, (call, one), likes, how)


def _made_less(now: _Round) -> OddTally | None:
    """Of one that a waiter of its like waits for, and that alone left out what all of them made."""
    odd, mine = now.tallies[now.peer], now.tallies[now.waiter]
    likes, common = _alike(now, odd, now.waiter)
    missing = common - odd.places
    if odd.before != mine.before or not missing or odd.places - common or mine.places - common:
        return None
    if len(likes) + 2 < CAN_OUTVOTE or not _is_even(now, mine, {now.waits_at}):
        return None
    usual = mine.latest(common)
    made_at = {one.place for made in odd.rounds for one in made if one.channel == now.channel}
    if not made_at or not made_at <= missing or not _was_of_all(odd, missing, tells=False):
        return None
    if mine.count(now.channel) > sum(one.channel == now.channel for one in usual):
        return None  # it asks for more than ever
    call = odd.call(next(iter(made_at)))
    return _found(now, odd, (call, call), (*likes, now.waiter), "left out")


def _found(
    now: _Round,
    odd: RoundTally,
    calls: tuple[Call | None, Call | None],
    likes: Iterable[int],
    how: How,
) -> OddTally | None:
    (call, usual), rounds = calls, sum(map(bool, odd.before))
    if call is None or usual is None or rounds < habit.ENOUGH:
        return None
    return OddTally(
        odd.rank, call, usual, how, tuple(sorted(likes)), now.waiter, now.waiting, now.peer,
        now.row, rounds,
    )  # fmt: skip


def _alike(
    now: _Round, odd: RoundTally, besides: int | None = None
) -> tuple[list[int], frozenset[CallPlace]]:
    """Who exchanged something at a rank's lines in every round before, and where in this one.

    Nobody where those do not agree in this one.
    """
    likes = [
        rank
        for rank, one in now.tallies.items()
        if rank not in (odd.rank, besides) and one.before == odd.before
    ]
    places = {now.tallies[rank].places for rank in likes}
    return (likes, places.pop()) if len(places) == 1 else ([], frozenset())


def _is_even(now: _Round, mine: RoundTally, extra: Collection[CallPlace]) -> bool:
    """Whether all messages of this round have two ends, but for what the waiter made beside.

    It may be in the midst of its round: so of its own there may be fewer.
    """
    channels = {one.channel for tally in now.tallies.values() for one in tally.now}
    for channel in channels:
        if not {channel.source, channel.destination} <= {*now.tallies}:
            return False
        ends = [now.tallies[rank] for rank in (channel.source, channel.destination)]
        if mine not in ends:
            if ends[0].count(channel) != ends[1].count(channel):
                return False
            continue
        other = ends[0] if ends[1] is mine else ends[1]
        if mine.count(channel, extra) > other.count(channel):
            return False
    return True


def _is_answered(
    now: _Round, mine: RoundTally, extra: Collection[CallPlace], usual: Sequence[Message]
) -> bool:
    """Whether the others made as many messages as ever with who made more of them than usual."""
    expected = Counter(one.channel for one in usual)
    for channel in {one.channel for one in mine.now if one.place in extra}:
        ends = channel.source, channel.destination
        other = now.tallies[ends[1] if ends[0] == mine.rank else ends[0]]
        if other.count(channel) != expected[channel]:
            return False
    return True


def _is_one_exchange_more(
    now: _Round, mine: RoundTally, extra: Collection[CallPlace], usual: Sequence[Message]
) -> bool:
    """Whether a rank went through its usual exchange with its peers from one line more.

    Or began with it, as far as to send something and to ask for something. From that line none
    ever came, and it is under no condition on the rank.
    """
    made = [one for one in mine.now if one.place in extra]
    is_whole = len(made) == len(usual) or now.waits_at in extra
    begun = [_inside(one) for one in usual[: len(made)]]
    if not usual or not is_whole or [_inside(one) for one in made] != begun:
        return False
    if now.waits_at in extra and len(mine.now) - len(made) != len(usual):
        return False  # it has not been through its own
    channel = now.channel
    back = channel._replace(source=channel.destination, destination=channel.source)
    if not {channel, back} <= {one.channel for one in made}:
        return False
    others = [tally for tally in now.tallies.values() if tally is not mine]
    places = {place for tally in others for own in (*tally.before, tally.places) for place in own}
    seen = {frame for _, where in places for frame in where}
    for _, where in {one.place for one in made}:
        line, _ = chains.outermost_apart(where, usual[0].place[1])
        if not line or line in seen or any(_is_by_rank(now.case, frame) for frame in where):
            return False
    return not any(own & {*extra} for own in mine.before)


def _inside(one: Message) -> tuple[str, str, ChannelKey]:
    """What a message is within the function that makes it."""
    op, where = one.place
    return op, where[0] if where else "", one.channel


def _is_by_rank(case: Case, frame: str) -> bool:
    """Whether a line is come to, or gone past, by the number of a rank."""
    site = chains.site(frame)
    lines = [*case.statements(site)[:-1], *(statements.way_of(one)[1] for one in case.ways(site))]
    return any(statements.tells_ranks_apart(case.spelled_out(site, line)) for line in lines)


def _was_of_all(odd: RoundTally, places: Collection[CallPlace], *, tells: bool = True) -> bool:
    """Whether a rank, and so all of its like, had exchanged something at some lines in rounds.

    ``tells``: and it received nothing elsewhere that may have told it of that.
    """
    rounds = sum({*places} <= own for own in odd.before)
    return rounds >= habit.ENOUGH and not (tells and odd.received_at - {*places})
