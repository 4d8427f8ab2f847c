"""What ranks of a kind sent from one line, against the message of one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from collectrace.align.causes.situation import Situation
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.align.reading.evidence import ChannelKey, RankLog
from collectrace.records import Call
from collectrace.signature import channel_text

_MOST: Final = 400
"""Messages of a channel that are looked at."""


@dataclass(frozen=True, slots=True)
class Unlike:
    """How the messages of a suspect differ from those of ranks that run the same line."""

    what: Literal["value", "order", "extra"]
    """``value``: another size or dtype. ``order``: the same tensors in another order. ``extra``:
    it made a message from a line that no other rank ever reached."""
    rank: int
    likes: tuple[int, ...]
    usual: Call | None = None
    """What the others made; `extra`: the extra message."""
    before: int = 0
    """Messages of the rank before it that were like those of the others."""


def unlike(situation: Situation, issue: ChannelIssue) -> Unlike | None:
    """Return how a suspect's end of a message differs from its like; None: it is not known."""
    ends = ((issue.channel.source, issue.send), (issue.channel.destination, issue.recv))
    for rank, call in ends:
        if rank in situation.suspects and call is not None:
            return _extra(situation, rank, issue) or _other(situation, rank, call, issue)
    return None


def _other(situation: Situation, rank: int, call: Call, issue: ChannelIssue) -> Unlike | None:
    case, op = situation.case, call.op
    mine = _from_line(case.log(rank), call, op)
    theirs: dict[int, list[Call]] = {}
    for other, log in case.evidence.logs.items():
        made = _from_line(log, call, op) if other != rank else []
        if made:
            theirs[other] = made
    if not theirs or not mine:
        return None
    likes = tuple(sorted(theirs))
    for made in theirs.values():
        texts, own = [channel_text(c) for c in made], [channel_text(c) for c in mine]
        if texts != own and len(own) > 1 and Counter(texts) == Counter(own):
            return Unlike("order", rank, likes)
    kinds = Counter(channel_text(one) for made in theirs.values() for one in made[-2:])
    usual = next((c for made in theirs.values() for c in made if channel_text(c) in kinds
                  and channel_text(c) != channel_text(call)), None)
    if usual is None:
        return None
    before = sum(channel_text(c) == channel_text(usual) for c in mine)
    return Unlike("value", rank, likes, usual, before)


def _from_line(log: RankLog | None, call: Call, op: str) -> list[Call]:
    """Return the sends, or receives, of a rank from the line of a call."""
    if log is None:
        return []
    found: list[Call] = []
    for channel, count in log.last_channel_seq.items():
        if (channel.source == log.rank) is (op == "send"):
            calls = (log.channel_call(channel, n) for n in range(1, min(count, _MOST) + 1))
            found += [c for c in calls if c is not None and c.site == call.site]
    return sorted(found, key=lambda one: one.t)


def _extra(situation: Situation, rank: int, issue: ChannelIssue) -> Unlike | None:
    """Return the message of a rank from a line where no other rank ever was."""
    case = situation.case
    log = case.log(rank)
    if log is None:
        return None
    sites = [
        {seen.site for one in other.last_channel_seq for seen in _seen(other, one)}
        for r, other in case.evidence.logs.items()
        if r != rank
    ]
    others = set().union(*sites)
    calls = (log.channel_call(issue.channel, n) for n in range(max(1, issue.seq - 16), issue.seq + 1))
    own = next((c for c in calls if c is not None and c.site and c.site not in others), None)
    likes = tuple(
        other
        for other, theirs in case.evidence.logs.items()
        if other != rank and issue.channel._replace(source=other) in theirs.last_channel_seq
    )
    return Unlike("extra", rank, likes, own) if own is not None and likes else None


def _seen(log: RankLog, channel: ChannelKey) -> Sequence[object]:
    rows = log.channel_rows(channel)
    return [rows.vocabulary.appearances[n] for n in set(rows.appearance)]
