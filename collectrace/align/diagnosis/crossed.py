"""Messages that two ranks issue in other orders: each end fits a later one of the other."""

from __future__ import annotations

from typing import Final

from collectrace import words
from collectrace.align.diagnosis.wording import Reason
from collectrace.align.judging.case import Case
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.records import Call
from collectrace.signature import numel

_NEAR: Final = 4
"""Messages behind one that are compared."""

_IN_ORDER: Final = (
    "Messages of one tag between two ranks match in the order in which they are issued: issue them "
    "in one order at both ends, or give each kind a tag of its own. Where a rank is another's "
    "neighbour on both sides, as in a ring of two, what it sends to the one must not meet what it "
    "awaits from the other."
)


def reason(case: Case, issue: ChannelIssue) -> Reason | None:
    """A later message of each end fits the other's; None: none does, or that is not known."""
    send, recv = issue.send, issue.recv
    if send is None or recv is None:
        return None
    source, destination = issue.channel.source, issue.channel.destination
    for seq in range(issue.seq + 1, issue.seq + _NEAR + 1):
        sent, awaited = (_message(case, issue, rank, seq) for rank in (source, destination))
        if sent is None or awaited is None:
            return None
        if _size(sent) == _size(recv) and _size(awaited) == _size(send):
            if not _fits_again(case, issue, seq):
                return None
            return Reason(
                f" The {words.ordinal(seq)} is the other way round: rank {source} sends what has "
                f"the size that is awaited here, and rank {destination} awaits what has the size "
                "that is sent here. So the two may go through their messages in other orders.",
                _IN_ORDER,
            )
    return None


def sent_later(case: Case, issue: ChannelIssue) -> Reason | None:
    """What a receive awaits comes in a later message, and it is the last that is known.

    None: it does not, or nothing is known of those.
    """
    send, recv = issue.send, issue.recv
    if send is None or recv is None:
        return None
    source, destination = issue.channel.source, issue.channel.destination
    if _message(case, issue, destination, issue.seq + 1) is not None:
        return None
    for seq in range(issue.seq + 1, issue.seq + _NEAR + 1):
        sent = _message(case, issue, source, seq)
        if sent is None:
            return None
        if _size(sent) == _size(recv):
            return Reason(
                f" The {words.ordinal(seq)} that rank {source} sends to rank {destination}"
                f"{words.at(sent)} has the size that is awaited here: so the two may go through "
                f"their messages in other orders, or rank {source} has sent more.",
                f"{_IN_ORDER}\nIf the messages are meant for each other: give the receive buffer "
                "the size of the tensor that is sent.",
            )
    return None


def _fits_again(case: Case, issue: ChannelIssue, seq: int) -> bool:
    """Whether those behind two that changed places fit, as far as they are known.

    Else all are moved by one, as where one was left out of some that alternate.
    """
    for n in range(seq + 1, seq + _NEAR):
        ends = [
            _message(case, issue, rank, n)
            for rank in (issue.channel.source, issue.channel.destination)
        ]
        sizes = {_size(call) for call in ends if call is not None}
        if None not in ends and len(sizes) > 1:
            return False
    return True


def _message(case: Case, issue: ChannelIssue, rank: int, seq: int) -> Call | None:
    log = case.log(rank)
    return log.channel_call(issue.channel, seq) if log is not None else None


def _size(call: Call) -> tuple[object, ...]:
    return call.dtype, *numel(call.shape)
