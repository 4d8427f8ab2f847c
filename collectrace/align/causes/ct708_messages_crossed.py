"""The messages of a channel are made in another order, or from another list, at its two ends.

What it means
    Messages of one tag between two ranks match in the order in which they are made. Here a later
    message of each end fits the other's. Or one end goes through a longer list than the other.

Example
    ::

        for tensor in model.state_dict().values():   # rank 0 sends buffers, too
            dist.send(tensor, 1)
        for tensor in model.parameters():            # rank 1 receives
            dist.recv(tensor, 0)

Not to be confused with
    CT707, if nothing fits in another order.

How to fix it
    Make the messages in the same order at both ends, or give each kind a tag of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from collectrace import words as words_
from collectrace.align.causes import phrases
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.records import Call
from collectrace.signature import channel_text, is_user, numel

_NEAR: Final = 4
"""Messages after one that may have changed places with it."""

_MOST: Final = 16
"""Messages that one end may have more than the other."""

_BOTH: Final = 2
"""Messages that must not fit as they are, and fit when shifted."""

_ORDER: Final = (
    "Make the messages in the same order at both ends, or give each kind a tag of its own. If a "
    "rank is the neighbour of another on both sides, as in a ring of two, what goes one way must "
    "not meet what goes the other way."
)


@dataclass(frozen=True, slots=True)
class Crossed:
    """Messages that fit in another order."""

    issue: ChannelIssue
    other: int = 0
    """The message with which it changed places; 0: one end has more messages."""
    receives: bool = True
    """Whether the receives changed places, too; else one end has sent no more yet."""
    tags: tuple[int, int] | None = None
    """Two tags whose messages were exchanged."""
    longer: int = -1
    """The rank with more messages."""
    extra: tuple[Call, ...] = ()
    """The messages that the other has no place for."""


def find(situation: Situation) -> Crossed | None:
    """Return how the messages of a channel fit; None: in no other order."""
    issue = situation.candidate.source
    if not isinstance(issue, ChannelIssue) or issue.attribute not in ("dtype", "count"):
        return None
    if issue.send is None or issue.recv is None or issue.is_from_any or situation.suspects:
        return None
    return _tags(situation, issue) or _swapped(situation, issue) or _shifted(situation, issue)


def _size(call: Call) -> tuple[object, ...]:
    return call.dtype, *numel(call.shape)


def _tags(situation: Situation, issue: ChannelIssue) -> Crossed | None:
    """Return that the messages of two tags fit if one end exchanges the tags."""
    assert issue.send is not None
    assert issue.recv is not None
    here, case = issue.channel, situation.case
    sender, receiver = case.log(here.source), case.log(here.destination)
    for key in sender.last_channel_seq if sender is not None else ():
        if key.tag == here.tag or key._replace(tag=here.tag) != here or sender is None:
            continue
        send = sender.channel_call(key, issue.seq)
        recv = receiver.channel_call(key, issue.seq) if receiver is not None else None
        is_other = send is not None and _size(send) == _size(issue.recv)
        # The receiver may have failed in the first of the two.
        if is_other and (recv is None or _size(recv) == _size(issue.send)):
            return Crossed(issue, tags=(here.tag, key.tag), receives=recv is not None)
    return None


def _swapped(situation: Situation, issue: ChannelIssue) -> Crossed | None:
    assert issue.send is not None
    assert issue.recv is not None
    sent, awaited = _messages(situation, issue)
    here = (_size(issue.recv), _size(issue.send))
    for n in range(1, _NEAR + 1):
        if n >= len(sent):
            return None
        if n >= len(awaited):
            if len(awaited) == 1 and _size(sent[n]) == here[0]:
                return Crossed(issue, issue.seq + n, receives=False)
            continue
        if (_size(sent[n]), _size(awaited[n])) == here:
            after = zip(sent[n + 1 :], awaited[n + 1 : n + _NEAR], strict=False)
            fits = all(_size(a) == _size(b) for a, b in after)
            return Crossed(issue, issue.seq + n) if fits else None
    return None


def _messages(situation: Situation, issue: ChannelIssue) -> tuple[list[Call], list[Call]]:
    """Return the messages of both ends from the one that does not fit."""
    found = []
    for rank in (issue.channel.source, issue.channel.destination):
        log = situation.case.log(rank)
        stop = log.last_channel_seq.get(issue.channel, 0) + 1 if log is not None else 0
        numbers = range(issue.seq, min(stop, issue.seq + 64))
        calls = [log.channel_call(issue.channel, n) for n in numbers] if log is not None else []
        found.append([call for call in calls if call is not None and not call.void])
    return found[0], found[1]


def _shifted(situation: Situation, issue: ChannelIssue) -> Crossed | None:
    """Return which end has messages too many, after which the two fit again."""
    if issue.taken or not (issue.send and issue.recv and is_user(issue.send)):
        return None
    sent, awaited = _messages(situation, issue)
    sends, awaits = _shift(sent, awaited), _shift(awaited, sent)
    if bool(sends) is bool(awaits):
        return None
    ranks = issue.channel.source, issue.channel.destination
    return Crossed(issue, longer=ranks[0 if sends else 1], extra=tuple(sends or awaits))


def _shift(longer: Sequence[Call], shorter: Sequence[Call]) -> Sequence[Call]:
    mine, theirs = ([channel_text(call) for call in calls] for calls in (longer, shorter))
    # Sizes that only grow or shrink are those of one tensor, which may be of any size.
    forms = {(str(call.dtype), len(call.shape or ())) for call in shorter}
    for by in range(1, _MOST + 1):
        fitting = min(len(theirs), len(mine) - by)
        if fitting < _BOTH or len(forms) < _BOTH:
            return ()
        unfit = sum(a != b for a, b in zip(theirs[:fitting], mine, strict=False))
        if theirs[:fitting] == mine[by : by + fitting] and unfit >= _BOTH:
            return longer[:by]
    return ()


def words(_: Situation, found: Crossed) -> Words:
    """Return the words for messages in another order."""
    issue = found.issue
    assert issue.send is not None
    assert issue.recv is not None
    source, destination = f"rank {issue.channel.source}", f"rank {issue.channel.destination}"
    who = f"ranks {words_.ranges((issue.channel.source, issue.channel.destination))}"
    sent, wanted = words_.tensors(issue.send), words_.tensors(issue.recv)
    at_send, at_recv = phrases.line(issue.send.site), phrases.line(issue.recv.site)
    first = (
        f"In the {words_.ordinal(issue.seq)} message {source} sends {sent}{at_send}, and "
        f"{destination} awaits {wanted}{at_recv}."
    )
    if found.tags is not None:
        one, two = found.tags
        other = f"With tag {two} {source} sends what {destination} awaits here"
        return Words(
            f"{who} disagree: the messages with tags {one} and {two} are exchanged at one end",
            (first, f"{other}, and the other way round." if found.receives else f"{other}."),
            (
                (
                    f"Exchange the two receive buffers, or the two tensors that are sent{at_recv}: "
                    f"what is sent with tag {one} must fit what is received with tag {one}."
                ),
            ),
        )
    if found.other and found.receives:
        return Words(
            f"{who} disagree on the order of messages: {sent} meets {wanted}",
            (
                first,
                (
                    f"The {words_.ordinal(found.other)} message is the other way round, so the two "
                    "may go through their messages in other orders."
                ),
            ),
            (_ORDER,),
        )
    if found.other:
        return Words(
            f"{who} disagree on a message: {sent} meets {wanted}",
            (
                first,
                (
                    f"The {words_.ordinal(found.other)} message that {source} sends has the size "
                    f"that is awaited here. So the two may make them in another order, or {source} "
                    "has sent more."
                ),
            ),
            (_ORDER, "Or if they are meant for each other, give the receive buffer the size sent."),
        )
    count = Counter(words_.tensors(call) + phrases.line(call.site) for call in found.extra)
    more = words_.counted(len(found.extra), "message")
    listed = words_.listed([f"{n} of {one}" for one, n in count.most_common(3)])
    did = "sent" if found.longer == issue.channel.source else "asked for"
    return Words(
        f"{who} disagree: rank {found.longer} {did} {more} more, first {listed}",
        (
            first,
            (
                f"What is awaited fits {more} later. So the two do not go through the same list of "
                "tensors."
            ),
        ),
        (
            (
                "Let both ends go through the same list of tensors, in the same order. "
                "state_dict() holds buffers, which parameters() does not."
            ),
            "If the list may change, send its names or its length first.",
        ),
    )
