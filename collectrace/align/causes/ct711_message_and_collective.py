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
from collectrace.align.causes import channel_counts, deciders, departed_words, wait_cycle
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
    rank, channel = message.waiting.rank, message.waiting.channel
    who = words_.ranges(edge.waiting.rank for edge in found)
    counts = channel_counts.of_channel(situation.case, channel) if channel is not None else ""
    first = departed_words.decider(situation)
    why = deciders.reasons(situation, [first]) if first is not None else ()
    headline = f"ranks {who} disagree: {one} or {other} first"
    new, fixes = "", [
        ("Finish the exchange before the collective, or after it, on every rank alike: move the "
        f"{one} of rank {rank}, or {other}.")
    ]  # fmt: skip
    if message.waiting.seq == 1:
        headline = f"ranks {who} disagree: rank {rank} called {one}, the others {other}"
        new = f"Rank {rank} had never made this {message.waiting.op} before."
        peer, log = message.target[0], situation.case.log(message.target[0])
        if channel is not None and log is not None and not log.last_channel_seq.get(channel):
            other = "never sent one" if channel.source == peer else "never received one"
            new = f"{new.removesuffix('.')}, and rank {peer} {other}."
        end = "send" if message.waiting.op == "recv" else "recv"
        fixes.insert(
            0, f"Let rank {message.target[0]} make its {end}, too, or leave out the {one}."
        )
    if first is not None and deciders.form(first) == "condition":
        fixes.append(f"Or let both ends of the message decide alike at {deciders.quoted(first)}.")
    told = [wait_cycle.waits(situation), new, counts, *why]
    fixes.append(f"Or if the other end does not come after it: {words_.lower(COUNT)}")
    return Words(headline, tuple(said for said in told if said)[:3], tuple(fixes[:3]))
