"""A send that may have gone to the wrong rank, or that closes a circle of waits: both readings."""

from __future__ import annotations

from typing import Final

from collectrace import words
from collectrace.align.diagnosis.callers import at_its_line, closed
from collectrace.align.diagnosis.wording import Reason, quoted
from collectrace.align.judging.case import Case
from collectrace.align.judging.closing_send import comes_later, has_met, loop_over_peers
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.align.reading import chains


def readings(case: Case, issue: ChannelIssue) -> Reason:
    """What the send of a near miss may mean, and what to change then; the likelier one first.

    Of an issue whose near miss closes a circle.
    """
    assert issue.near is not None
    sent, wanted, met = issue.near.channel, issue.channel, has_met(issue)
    ends = (sent.source, issue.near.send, "send"), (wanted.destination, issue.recv, "recv")
    begun, recv = (words.message(c) if c is not None else op for _, c, op in ends)
    at, recv_at = (at_its_line(case, r, c) if c is not None else "" for r, c, _ in ends)
    send = closed(f"rank {sent.source}'s {begun} to rank {sent.destination}{at}")
    recv = closed(f"{recv}{recv_at}")
    if issue.near.differs == "destination":
        other = f"it was meant for rank {wanted.destination}, whose {recv} awaits one of it"
        first = f"let rank {sent.source} send first what rank {wanted.destination} awaits of it"
    else:
        other = (
            f"rank {wanted.destination}'s {recv.removesuffix(',')}, which names rank "
            f"{wanted.source}, was meant for it"
        )
        first = f"let rank {sent.destination} receive it first"
    before = f", as {words.counted(met, 'message')} did that met before," if met else ""
    right = (
        f"it goes where it is meant to go{before} and comes too early: rank {sent.destination} "
        f"waits, through others, for something of rank {sent.source} first"
    )
    if_right = (
        f"If {send} goes where it is meant to: {first}, or begin it with {_IN_THE_BACKGROUND}"
    )
    later = comes_later(case, issue)
    if later is not None:
        name = f"{words.message(later)}{at_its_line(case, sent.source, later)}"
        return Reason(
            f"{words.upper(send)} comes too early: rank {sent.destination} waits, through others, "
            f"for what rank {sent.source} sends to rank {wanted.destination} behind it, by its "
            f"{name}, as in each round before.",
            f"{words.upper(first)}, or begin it with {_IN_THE_BACKGROUND}",
        )
    if_other = (
        f"If {other.partition(', whose')[0]}: name each other as the peer, in the send and in its "
        "recv."
    )
    loop = loop_over_peers(case, issue)
    if met or loop is not None:
        turns = (
            f" It stands in {quoted(chains.split(issue.near.send.site)[0], loop)}, which sends to "
            "one after the other: a message that others wait for may come in a later turn."
            if loop is not None and issue.near.send is not None
            else ""
        )
        return Reason(
            f"{words.upper(send)} can be read in two ways. Either {right}; or {other}. The logs do "
            f"not show which.{turns}",
            f"{if_right}\n{if_other}",
        )
    return Reason(
        f"{words.upper(send)} can be read in two ways. Either {other}; or {right}. The logs do not "
        "show which: no message has met between these two before.",
        f"{if_other}\n{if_right}",
    )


_IN_THE_BACKGROUND: Final = (
    "isend() and wait() for it later, or pass what goes both ways to "
    "batch_isend_irecv([P2POp(isend, ...), P2POp(irecv, ...)])."
)
