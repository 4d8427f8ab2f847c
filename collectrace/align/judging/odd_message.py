"""Messages of several ranks of a kind, of which those of one alone are of another size.

As where workers push to a server. What all of a kind have sent each time, from one line, is what
the server awaits of each; who alone sends something else, as it never did, has departed from it.
Or between ranks that each send to one other, as in a ring, where sizes may vary from message to
message: if all sent alike in each before, who alone does not in this one has departed from it.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Literal, NamedTuple

from collectrace.align.judging import announced
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.matching import habit, programs
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.align.matching.deviations import CAN_OUTVOTE
from collectrace.align.reading.evidence import ChannelKey, RankLog
from collectrace.records import Call
from collectrace.signature import channel_text, is_user

End = Literal["source", "destination"]
Made = tuple[tuple[str, ...], str]
"""A rank's end of a message: the frames above it, and what its other end must agree in."""


class OddMessage(NamedTuple):
    """A message of which one end alone is another than those of its like."""

    rank: int
    """Whose end it is."""
    end: End
    """Which of the two: ``source``, it sent it."""
    hub: int
    """At the other end; of all of them, unless ``by_turn``."""
    likes: tuple[int, ...]
    """Who made as many of them, each as the hub made its own end; at least two."""
    usual: Call
    """The hub's end."""
    before: int
    """Messages of the rank before, which were so, too; at least three."""
    by_turn: bool = False
    """Each has another at its other end, and what was alike may have varied from one message to
    the next."""


@once
def odd_message(case: Case, candidate: Candidate) -> OddMessage | None:
    """Which end of a message that does not fit departed from its like; None: it is not known.

    Nothing where sizes have ever differed at that line, of whatever rank; nor where the two may
    have told each other of the size before.
    """
    issue = candidate.source
    if not isinstance(issue, ChannelIssue):
        return None
    send, recv = issue.send, issue.recv
    if send is None or recv is None or not (is_user(send) and is_user(recv)):
        return None
    if issue.is_from_any or issue.taken or issue.seq <= habit.ENOUGH:
        return None
    ends: tuple[tuple[End, Call], ...] = ("source", recv), ("destination", send)
    found = (_of_end(case, issue, end, usual) for end, usual in ends)
    return next((one for one in found if one is not None), None)


def _of_end(case: Case, issue: ChannelIssue, end: End, usual: Call) -> OddMessage | None:
    """``usual``: the other end of the message."""
    rank = issue.channel.source if end == "source" else issue.channel.destination
    log = case.log(rank)
    if log is None or not programs.is_whole(log) or _may_be_announced(case, log, issue):
        return None
    return _of_hub(case, issue, end, usual, log) or _of_turn(case, issue, end, usual, log)


def _of_hub(
    case: Case, issue: ChannelIssue, end: End, usual: Call, log: RankLog
) -> OddMessage | None:
    """Of ranks whose messages all have one other end. ``log``: of the rank at this one."""
    channel, rank = issue.channel, log.rank
    hub = channel.destination if end == "source" else channel.source
    mine, kind = made(log, channel, issue.seq), (channel_text(usual),)
    lines = {line for line, _ in mine}
    if len(lines) != 1 or {text for _, text in mine[:-1]} != {*kind}:
        return None
    likes = []
    for like in issue.group.ranks:
        one, other = with_other(channel, end, like), case.log(like)
        if like in (rank, hub) or other is None or one not in other.last_channel_seq:
            continue
        theirs = made(other, one, issue.seq)
        if not programs.is_whole(other) or {*theirs} != {(line, *kind) for line in lines}:
            return None
        if len(theirs) == issue.seq:
            likes.append(like)
    if len(likes) + 1 < CAN_OUTVOTE:
        return None
    return OddMessage(rank, end, hub, tuple(likes), usual, issue.seq - 1)


def _of_turn(
    case: Case, issue: ChannelIssue, end: End, usual: Call, log: RankLog
) -> OddMessage | None:
    """Of ranks that each have one such channel: the n-th messages of all are compared."""
    channel, likes = issue.channel, []
    rank, hub = log.rank, channel.destination if end == "source" else channel.source
    *done, (lines, _) = made(log, channel, issue.seq)
    now = lines, channel_text(usual)
    for other in issue.group.ranks:
        theirs = case.log(other)
        own = _channels_like(theirs, channel, end) if theirs is not None else []
        if theirs is None or not programs.is_whole(theirs) or len(own) > 1:
            return None
        sent = made(theirs, own[0], issue.seq) if own else []
        if other == rank or not own:
            continue
        if sent != [*done, now][: len(sent)]:
            return None
        if len(sent) == issue.seq:
            likes.append(other)
    if len(likes) + 1 < CAN_OUTVOTE:
        return None
    return OddMessage(rank, end, hub, tuple(likes), usual, issue.seq - 1, by_turn=True)


def _channels_like(log: RankLog, channel: ChannelKey, end: End) -> list[ChannelKey]:
    """A rank's own channels of a group and tag at one end of which it is."""
    kind = channel.group, channel.device, channel.tag
    return [
        one
        for one in log.last_channel_seq
        if (one.group, one.device, one.tag) == kind
        and (one.source if end == "source" else one.destination) == log.rank
    ]


def with_other(channel: ChannelKey, end: End, rank: int) -> ChannelKey:
    """The channel with another rank at one end."""
    if end == "source":
        return channel._replace(source=rank)
    return channel._replace(destination=rank)


def made(log: RankLog, channel: ChannelKey, seq: int | None = None) -> list[Made]:
    """A rank's ends of the messages up to one, or of all.

    Of a rank that has not come to that all that it made.
    """
    rows = log.channel_rows(channel)
    known = rows.vocabulary
    stop = len(rows) if seq is None else bisect_right(rows.seq, seq)
    texts = {n: channel_text(known.examples[n]) for n in set(rows.meaning[:stop])}
    return [
        (known.appearances[appearance].where, texts[meaning])
        for appearance, meaning in zip(rows.appearance[:stop], rows.meaning[:stop], strict=True)
    ]


def _may_be_announced(case: Case, log: RankLog, issue: ChannelIssue) -> bool:
    """Whether a rank has told of the size of a message since the one before it, or was told."""
    offsets = log.channel_rows(issue.channel).offset
    begin, end = offsets[issue.seq - 2], offsets[issue.seq - 1]
    way = issue.channel.source, issue.channel.destination

    def tells(told: announced.Told) -> bool:
        key = told.key
        if isinstance(key, ChannelKey) and (key.source, key.destination) == way:
            return True
        if announced.carries_numbers(told.call):
            return True
        if isinstance(key, ChannelKey) and (key.destination, key.source) != way:
            return False  # the other end knows nothing of it
        ranks = case.comparison.groups[key.group].ranks
        return announced.came_to(log.rank, told) and announced.may_tell(told, ranks)

    return any(map(tells, announced.between(log, begin, end)))
