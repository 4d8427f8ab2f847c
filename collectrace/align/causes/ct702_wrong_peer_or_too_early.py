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

_BATCH: Final = (
    "pass what goes both ways to batch_isend_irecv([P2POp(isend, ...), P2POp(irecv, ...)])"
)
_LATER: Final = f"or begin it with isend() and wait() for it later, or {_BATCH}."


def find(situation: Situation) -> ChannelIssue | None:
    """Return the message that the send of a cycle was meant for, or comes before."""
    cycle = situation.candidate.cycle
    found = find_in_cycle(situation.case, cycle) if cycle and situation.is_tie else None
    is_known = found is not None and found.near is not None and found.near.send is not None
    return found if is_known else None


def _awaiting(situation: Situation, rank: int) -> str | None:
    """Return the line of the receive in which a rank of the cycle waits; None: it is in no one."""
    for edge in situation.candidate.cycle:
        channel = edge.waiting.channel
        if edge.waiting.rank == rank and channel is not None and channel.destination == rank:
            return phrases.line(edge.waiting.site)
    return None


def words(situation: Situation, found: ChannelIssue) -> Words:
    """Return the words for a send that closes a cycle."""
    assert found.near is not None
    assert found.near.send is not None
    send, line = found.near.send, phrases.line(found.recv.site if found.recv else None)
    source, target = found.near.channel.source, found.near.channel.destination
    lacks, awaited, met = found.channel.destination, found.channel.source, send.seq - 1
    who = words_.ranks(edge.waiting.rank for edge in situation.candidate.cycle)
    made = f"rank {source}'s send to rank {target}{phrases.line(send.site)}"
    later = f"or wait() for it later, or {_BATCH}." if send.api == "isend" else _LATER
    if found.near.differs == "destination":
        wrong = (
            f"{made} may be meant for rank {lacks}, whose recv{line} awaits one from rank {source}"
        )
        peer = f"If the send was meant for rank {lacks}: pass dst={lacks} to it."
        if (other := _awaiting(situation, target)) is not None:
            wrong += f", or rank {target}'s recv{other} names the wrong rank"
            peer += f" If rank {target}'s recv{other} is wrong: pass src={source} to that."
        early = f"let rank {source} send first what rank {lacks} awaits, {later}"
    else:
        wrong = f"{made} may be meant for rank {lacks}, whose recv{line} names rank {awaited}"
        peer = f"If rank {lacks} was to receive it: pass src={source} to the recv{line}."
        early = f"let rank {target} receive it first, {later}"
    before = f", as {words_.counted(met, 'message')} went there before" if met else ""
    fixes = (peer, f"If it comes too early: {early}")
    if met:
        fixes = fixes[::-1]
    none = (
        "no message so far"
        if found.seq == 1
        else f"{words_.counted(found.seq - 1, 'message')} so far"
    )
    return Words(
        f"ranks {who.partition(' ')[2]} disagree: rank {source} sends to rank {target}, "
        f"rank {lacks} awaits rank {awaited}, in a cycle of waits",
        (
            f"{words_.upper(wrong)}.",
            f"Or it goes where it is meant to go{before}, and comes too early: rank {target} "
            f"waits, through others, for rank {source}.",
            wait_cycle.waits(situation),
        ),
        fixes,
        (f"Rank {awaited} has sent rank {lacks} {none}.",),
    )
