"""The two ends of a channel make their messages in different orders, or from different lists.

What it means
    Messages of one tag between two ranks match in the order in which they are made. Here a later
    message of each end matches the other's. Or one end loops over a longer list than the other.

Example
    ::

        for tensor in model.state_dict().values():   # rank 0 sends buffers, too
            dist.send(tensor, 1)
        for tensor in model.parameters():            # rank 1 receives
            dist.recv(tensor, 0)

Not to be confused with
    CT707, if no other order matches.

How to fix it
    Make the messages in the same order at both ends, or give each kind its own tag.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from collectrace import words as words_
from collectrace.align.causes import phrases
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.align.reading.evidence import ChannelKey, RankLog
from collectrace.records import Call
from collectrace.signature import numel

_MOST: Final = 1_000
"""Messages that are compared. A harmed record may claim any number of them."""

_NEAR: Final = 4
"""Following messages that may be swapped with a message."""

_BOTH: Final = 2
"""Later messages that must match to show that one end has more."""


@dataclass(frozen=True, slots=True)
class Crossed:
    """Another message of the sender that matches the receive."""

    issue: ChannelIssue
    send: Call
    recv: Call
    later: int
    """How many messages later it is sent; 0: it has another tag."""
    tag: int
    mutual: bool = False
    """Whether the receive of that message matches the send of this one."""
    lacks: int | None = None
    """The rank that made fewer messages: each of its own matches the one ``later`` behind its."""


def find(situation: Situation) -> Crossed | None:
    """Return which other message matches; None if there is none, or if a suspect is known."""
    issue = situation.candidate.source
    if not isinstance(issue, ChannelIssue) or issue.attribute not in ("dtype", "count"):
        return None
    if issue.send is None or issue.recv is None or issue.is_from_any or situation.suspects:
        return None
    key = issue.channel
    sender, receiver = situation.case.log(key.source), situation.case.log(key.destination)
    if sender is None or receiver is None:
        return None
    ends = sender, receiver
    is_cut = any(one.rank == receiver.rank for one in situation.case.comparison.unproven)
    here = _size(issue.send), _size(issue.recv)
    for other, seq in _others(sender, issue):
        send, recv = sender.call(other, seq), receiver.call(other, seq)
        if send is None or _size(send) != here[1]:
            continue
        later = seq - issue.seq
        is_mutual = recv is not None and _size(recv) == here[0]
        is_mutual &= not later or _fit(ends, key, range(seq + 1, seq + _NEAR), 0)
        # The receiver may have failed in the first of the two, if its log has not lost the second.
        is_last = recv is None and receiver.last_channel_seq.get(key, 0) == issue.seq
        if is_mutual or (is_last and not is_cut):
            return Crossed(issue, issue.send, issue.recv, later, other.tag, is_mutual)
    lacking = _lacking(ends, issue)
    if lacking is None:
        return None
    rank, later = lacking
    return Crossed(issue, issue.send, issue.recv, later, key.tag, lacks=rank)


def _lacking(ends: tuple[RankLog, RankLog], issue: ChannelIssue) -> tuple[int, int] | None:
    """Return the rank all of whose further messages match later ones of the other, or None.

    Also return how many messages later.

    One odd size does not show that: then the messages behind it match those that they meet.
    """
    key = issue.channel
    sender, receiver = ends
    if _fit(ends, key, range(issue.seq + 1, receiver.last_channel_seq.get(key, 0) + 1), 0):
        return None
    for later in range(1, _NEAR + 1):
        for mine, other in ((receiver, sender), (sender, receiver)):
            rest = range(issue.seq, mine.last_channel_seq.get(key, 0) + 1)
            if len(rest) >= _BOTH and _fit((other, mine), key, rest, later):
                return mine.rank, later
    return None


def _others(sender: RankLog, issue: ChannelIssue) -> Iterator[tuple[ChannelKey, int]]:
    """Yield messages that may be meant: the same number with another tag, or a later one."""
    here = issue.channel
    for key in sender.last_channel_seq:
        if key.tag != here.tag and key._replace(tag=here.tag) == here:
            yield key, issue.seq
    for n in range(1, _NEAR + 1):
        yield here, issue.seq + n


def _fit(ends: tuple[RankLog, RankLog], key: ChannelKey, made: range, later: int) -> bool:
    """Whether the messages ``made`` of the second end match those ``later`` on of the first."""
    other, mine = ends
    pairs = ((mine.call(key, n), other.call(key, n + later)) for n in made[:_MOST])
    return all(one is None or (two is not None and _size(one) == _size(two)) for one, two in pairs)


def _size(call: Call) -> tuple[object, ...]:
    return call.dtype, *numel(call.shape)


_RING: Final = (
    " If a rank is the neighbour of another on both sides, as in a ring of two, what goes one way "
    "must not meet what goes the other way."
)


def words(_: Situation, found: Crossed) -> Words:
    """Return the words for messages that match in another order."""
    issue, send, recv, tag = found.issue, found.send, found.recv, found.issue.channel.tag
    source, destination = f"rank {issue.channel.source}", f"rank {issue.channel.destination}"
    who = words_.ranks((issue.channel.source, issue.channel.destination))
    sent, wanted = words_.tensors(send), words_.tensors(recv)
    first = (
        f"In the {words_.ordinal(issue.seq)} message {source} sends "
        f"{sent}{phrases.line(send.site)}, and {destination} awaits "
        f"{wanted}{phrases.line(recv.site)}."
    )
    if found.lacks is not None:
        return _of_lacking(found, found.lacks, first)
    also = ", and the other way round" if found.mutual else ""
    if not found.later:
        return Words(
            f"{who} disagree: the messages with tags {tag} and {found.tag} are swapped at one end",
            (first, f"With tag {found.tag} {source} sends what {destination} awaits here{also}."),
            (
                f"Give the recv with tag {tag}{phrases.line(recv.site)} a buffer for "
                f"{sent}: swap the sizes of the two buffers where they are made. Or, if each "
                "buffer is right, swap the two tags at one end.",
            ),
        )
    return Words(
        f"{who} disagree on the order of messages: {sent} meets {wanted}",
        (
            first,
            f"What is sent {words_.counted(found.later, 'message')} later has the size that is "
            f"awaited here{also}. So the two may make their messages in other orders, or not "
            "go through the same list.",
        ),
        (
            "Make the messages of the same list in the same order at both ends, or give each "
            f"kind of message a tag of its own.{_RING if found.mutual else ''}",
            "Or if they are meant for each other, give the receive buffer the size sent.",
        ),
    )


def _of_lacking(found: Crossed, rank: int, first: str) -> Words:
    """Return the words for an end that made fewer messages than the other."""
    issue = found.issue
    mine, theirs, other = found.send, found.recv, issue.channel.destination
    if rank != issue.channel.source:
        mine, theirs, other = theirs, mine, issue.channel.source
    fewer, more = words_.counted(found.later, mine.op), words_.counted(found.later, theirs.op)
    count, later = words_.ordinal(issue.seq), words_.counted(found.later, "message")
    who = words_.ranks((rank, other))
    return Words(
        f"{who} disagree: from the {count} message on, each {mine.op} meets the wrong {theirs.op}",
        (
            first,
            f"From there on each {mine.op} of rank {rank} fits the {theirs.op} that comes {later} "
            f"later: rank {rank} left out {fewer}, or rank {other} made {more} too many.",
        ),
        (
            f"Go through the same list in the same order at both ends: make what rank {rank} left "
            f"out before its {count} {mine.op}{phrases.line(mine.site)}, or leave out what belongs "
            f"to it on rank {other}{phrases.line(theirs.site)}.",
        ),
    )
