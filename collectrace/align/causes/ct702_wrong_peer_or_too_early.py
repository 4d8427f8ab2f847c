"""A send closes a cycle of waits: it went to the wrong rank, or it comes too early.

What it means
    A rank waits for a message. Its sender sends to another rank instead, and waits there. The send
    may name the wrong peer. Or it is right, and only comes before the message that is awaited.

Example
    ::

        dist.send(copy, dst=2)     # rank 2 waits, through rank 1, for rank 0
        dist.send(data, dst=1)

Not to be confused with
    CT705, if the two ranks do not wait for each other: then the peer is wrong.

How to fix it
    Correct the peer, or send first what the other rank waits for, or use ``isend``.
"""

from __future__ import annotations

from typing import Final

from collectrace import words as words_
from collectrace.align.causes import phrases, wait_cycle
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.judging.closing_send import comes_later, in_circle
from collectrace.align.matching.comparison import ChannelIssue

_APART: Final = (
    "or begin it with isend() and wait() for it later, or pass what goes both ways to "
    "batch_isend_irecv([P2POp(isend, ...), P2POp(irecv, ...)])."
)


def find(situation: Situation) -> ChannelIssue | None:
    """Return the message that the send of a cycle was meant for, or comes before."""
    cycle = situation.candidate.cycle
    found = in_circle(situation.case, cycle) if cycle and situation.is_tie else None
    is_known = found is not None and found.near is not None and found.near.send is not None
    return found if is_known else None


def words(situation: Situation, found: ChannelIssue) -> Words:
    """Return the words for a send that closes a cycle."""
    assert found.near is not None
    assert found.near.send is not None
    send, recv = found.near.send, found.recv
    source, target, lacks = (
        found.near.channel.source, found.near.channel.destination, found.channel.destination,
    )  # fmt: skip
    named = found.channel.source
    later = comes_later(situation.case, found)
    made = f"rank {source}'s send to rank {target}{phrases.line(send.site)}"
    awaited = f"recv of rank {lacks}{phrases.line(recv.site if recv else None)}"
    waits = wait_cycle.waits(situation)
    who = words_.ranks(edge.waiting.rank for edge in situation.candidate.cycle)
    headline = f"{who} disagree: {made} closes a cycle of waits"
    first = lacks if found.near.differs == "destination" else target
    too_early = (
        f"Let rank {source} send first what rank {lacks} awaits, {_APART}"
        if found.near.differs == "destination"
        else f"Let rank {target} receive it first, {_APART}"
    )
    if later is not None:
        return Words(
            headline,
            (
                waits,
                (
                    f"{words_.upper(made)} comes too early: rank {target} waits, through others, "
                    f"for the send to rank {lacks}{phrases.line(later.site)} that follows it."
                ),
            ),
            (too_early,),
        )
    meant = (
        f"it was meant for rank {lacks}, whose {awaited.partition(' of ')[0]}"
        f"{phrases.line(recv.site if recv else None)} awaits one of rank {source}"
        if found.near.differs == "destination"
        else f"the {awaited}, which names rank {named}, was meant for it"
    )
    met = send.seq - 1
    before = f", as {words_.counted(met, 'message')} did before" if met else ""
    peer = "If not: name each other as the peer, in the send and in its recv."
    return Words(
        headline,
        (
            waits,
            (
                f"{words_.upper(made)} goes where it is meant to go{before}, and comes too early: "
                f"rank {target} waits, through others, for rank {source}. "
                f"Or {meant}: the logs do not show which."
            ),
        ),
        (f"If {made} goes where it is meant to go: {words_.lower(too_early)}", peer)
        if met or first == target
        else (
            peer.replace("If not", f"If it was meant for rank {lacks}"),
            f"Else: {words_.lower(too_early)}",
        ),
    )
