"""A send closes a cycle of waits: it went to the wrong rank, or it comes too early.

What it means
    A rank waits for a message. Its sender sends to another rank instead, and waits there. The send
    may name the wrong peer. Or it is correct, but comes before the awaited message.

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
from collectrace.align.judging.closing_send import find_in_cycle
from collectrace.align.matching.comparison import ChannelIssue

_APART: Final = (
    "or begin it with isend() and wait() for it later, or pass what goes both ways to "
    "batch_isend_irecv([P2POp(isend, ...), P2POp(irecv, ...)])."
)


def find(situation: Situation) -> ChannelIssue | None:
    """Return the message that the send of a cycle was meant for, or comes before."""
    cycle = situation.candidate.cycle
    found = find_in_cycle(situation.case, cycle) if cycle and situation.is_tie else None
    is_known = found is not None and found.near is not None and found.near.send is not None
    return found if is_known else None


def words(situation: Situation, found: ChannelIssue) -> Words:
    """Return the words for a send that closes a cycle."""
    assert found.near is not None
    assert found.near.send is not None
    send, line = found.near.send, phrases.line(found.recv.site if found.recv else None)
    source, target = found.near.channel.source, found.near.channel.destination
    lacks, met = found.channel.destination, send.seq - 1
    made = f"rank {source}'s send to rank {target}{phrases.line(send.site)}"
    waits = wait_cycle.waits(situation)
    who = words_.ranks(edge.waiting.rank for edge in situation.candidate.cycle)
    headline = f"{who} disagree: {made} closes a cycle of waits"
    if found.near.differs == "destination":
        too_early = f"Let rank {source} send first what rank {lacks} awaits, {_APART}"
        meant = f"it was meant for rank {lacks}, whose recv{line} awaits one of rank {source}"
    else:
        too_early = f"Let rank {target} receive it first, {_APART}"
        meant = (
            f"the recv of rank {lacks}{line}, which names rank {found.channel.source}, was meant "
            "for it"
        )
    before = f", as {words_.counted(met, 'message')} did before" if met else ""
    peer = "name each other as the peer, in the send and in its recv."
    fixes = (f"If it was meant for rank {lacks}: {peer}", f"If not: {words_.lower(too_early)}")
    if met or found.near.differs != "destination":
        fixes = (
            f"If {made} goes where it is meant to go: {words_.lower(too_early)}",
            f"If not: {peer}",
        )
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
        fixes,
    )
