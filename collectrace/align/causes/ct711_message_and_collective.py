"""Some ranks wait in a message, others in a collective, and each comes before the other.

What it means
    A rank waits for a message. Its other end comes after a collective, or never. The ranks in the
    collective wait for that rank.

Example
    ::

        if rank == 0:
            dist.send(x, dst=1)     # rank 0 waits here
            dist.barrier()
        else:
            dist.barrier()          # rank 1 waits here
            dist.recv(x, src=0)

Not to be confused with
    CT703, if a rank departed from an exchange that had worked before.

How to fix it
    Finish the exchange before the collective, or after it, on every rank alike.
"""

from __future__ import annotations

from collectrace import words as words_
from collectrace.align.causes import channel_counts, deciders, wait_cycle
from collectrace.align.causes.ct704_message_without_other_end import COUNT
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.ranks.waitgraph import Cycle


def find(situation: Situation) -> Cycle | None:
    """Return a cycle of messages and collectives."""
    cycle = situation.candidate.cycle
    kinds = {edge.waiting.channel is None for edge in cycle}
    return cycle if len(kinds) > 1 else None


def words(situation: Situation, found: Cycle) -> Words:
    """Return the words for a message and a collective that wait for each other."""
    message = next(edge for edge in found if edge.waiting.channel is not None)
    collective = next(edge for edge in found if edge.waiting.channel is None)
    one, other = wait_cycle.what(situation, message), wait_cycle.what(situation, collective)
    counts = ""
    if message.waiting.channel is not None:
        counts = channel_counts.of_channel(situation.case, message.waiting.channel)
    first = next(iter(deciders.ranked(situation)), None)
    why = deciders.reasons(situation, [first]) if first is not None else ()
    told = [wait_cycle.waits(situation), counts, *why]
    return Words(
        f"{words_.ranks(e.waiting.rank for e in found)} disagree: {one} or {other} first",
        tuple(said for said in told if said)[:3],
        (
            "Finish the exchange before the collective, or after it, on every rank alike: move the "
            f"{one} of rank {message.waiting.rank}, or {other}.",
            f"Or, if the other end does not come after the collective: {words_.lower(COUNT)}",
        ),
    )
