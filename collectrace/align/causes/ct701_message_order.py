"""Ranks wait for each other's messages, because they make their calls in conflicting orders.

What it means
    Every rank of a cycle waits in a message or a collective that the next rank only makes later.
    For example, both receive before they send. Or one receives before a barrier, and its peer sends
    after it.

Example
    ::

        dist.recv(theirs, peer)    # both ranks wait here
        dist.send(mine, peer)

Not to be confused with
    CT703, if a rank departed from an exchange that had worked before. CT704, if one end makes more
    messages than the other.

How to fix it
    Let one of the ranks send first, or pass both messages to ``batch_isend_irecv``. Make each
    exchange on the same side of a collective on every rank.
"""

from __future__ import annotations

from typing import Final

from collectrace import words as words_
from collectrace.align.causes import (
    channel_counts,
    deciders,
    departed,
    departed_words,
    phrases,
    remedies,
    structure,
    wait_cycle,
)
from collectrace.align.causes.ct704_message_without_other_end import COUNT
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.ranks.waitgraph import Cycle, Edge
from collectrace.records import Call


def find(situation: Situation) -> Cycle | None:
    """Return a cycle of messages without a departure, or with all ranks at one line.

    Also return a cycle of messages and collectives, whichever rank is the suspect.
    """
    cycle = situation.candidate.cycle
    channels = [edge.waiting.channel for edge in cycle]
    if None not in channels:
        at_one_line = len({edge.waiting.site for edge in cycle}) == 1
        is_told = situation.is_tie and all(one is not None and one.source >= 0 for one in channels)
        is_told &= at_one_line or departed.find(situation) is None
    else:
        is_uneven = situation.is_tie and any(channel_counts.uneven(situation))
        is_told = any(channels) and not is_uneven and departed.find(situation) is None
    return cycle if cycle and is_told else None


def words(situation: Situation, found: Cycle) -> Words:
    """Return the words for calls that wait for each other."""
    if any(edge.waiting.channel is None for edge in found):
        return _with_collective(situation, found)
    calls = wait_cycle.calls(situation)
    made = [calls[edge.waiting.rank] for edge in found if edge.waiting.rank in calls]
    who = words_.ranks(edge.waiting.rank for edge in found)
    places = {(one.op, one.site) for one in made}
    do = "disagree on the order of messages" if len(places) > 1 else "wait for each other"
    if len(places) == 1:
        each = f"each waits in {words_.message(made[0])}{phrases.line(made[0].site)}"
    else:
        ops = sorted({one.op for one in made})
        each = f"each waits in its {' or '.join(ops)}"
    first_time = _first_time(situation, found)
    why, fixes = _decided(situation) if not first_time else (first_time, ())
    return Words.of(
        f"{who} {do}: {each} first",
        (wait_cycle.waits(situation), *why),
        (*fixes, *_fixes(situation, found, made)),
    )


def _decided(situation: Situation) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the condition that changed what a rank did, and its fix.

    Between two ranks, one on the rank explains nothing: it was the same before. If a rank is
    compared with itself, the condition tests something else as well.
    """
    first, pair = departed_words.deciding_statement(situation), situation.pair
    is_own = pair is not None and pair.is_of_one_rank
    if first is None or deciders.form(first) != "condition":
        return (), ()
    if deciders.origin(first) == "rank" and not is_own:
        return (), ()
    fix = f"Let both ends of the message decide alike at {deciders.quoted(first)}."
    return deciders.reasons(situation, [first])[:2], (fix,)


def _fixes(situation: Situation, cycle: Cycle, made: list[Call]) -> tuple[str, ...]:
    if all(one.api == "batch_isend_irecv" for one in made):
        return (
            "Pass a send, and the recv that the same two ranks exchange beside it, to one "
            "batch_isend_irecv([...]) on both ranks. If a list of messages is cut into several "
            "batches, cut it at the same messages on every rank, in the same order.",
            "Or issue all batches before the first wait().",
        )
    first, before = cycle[0].waiting, cycle[-1].waiting
    other = "send" if before.op == "recv" else "recv"
    ends = ("", "")
    if other == first.op:
        way = "to" if other == "send" else "from"
        ends = f" {way} rank {before.rank}", f" {way} rank {cycle[0].target[0]}"
    place = phrases.line(made[0].site) if made else ""
    is_one_line = len({edge.waiting.site for edge in cycle}) == 1
    is_one_line &= len(situation.case.standings) > len(ends)
    each = " Do so on one rank of each pair of neighbours." if is_one_line else ""
    return (
        f"Let rank {first.rank} make its {other}{ends[0]} before its {first.op}{ends[1]}{place}."
        f"{each}",
        "Or pass both to batch_isend_irecv([P2POp(isend, ...), P2POp(irecv, ...)]) on every "
        "rank: it cannot block like this.",
    )


def _first_time(situation: Situation, cycle: Cycle) -> tuple[str, ...]:
    """Return a sentence if the message is the rank's first one there, or nothing."""
    for edge in cycle:
        rank, channel, seq = edge.waiting.rank, edge.waiting.channel, edge.waiting.seq
        log = situation.case.log(rank)
        if channel is None or log is None or seq != 1:
            continue
        if max(log.last_channel_seq.values(), default=0) > 1:
            is_recv = edge.waiting.op == "recv"
            peer = f"from rank {channel.source}" if is_recv else f"to rank {channel.destination}"
            return (
                f"In the iterations before, rank {rank} called no {edge.waiting.op} {peer}, so "
                "there was no cycle.",
            )
    return ()


_WENT: Final[dict[structure.Jump, str]] = {
    "break": "left the loop before", "continue": "began the next iteration before",
    "return": "returned before", "raise": "raised before",
}  # fmt: skip
"""What a rank did that jumped over a call."""


def _skipped(situation: Situation, message: Edge, one: str, other: str) -> tuple[str, str] | None:
    """Return headline and fix if a rank of the cycle jumped over what the next one waits for.

    Args:
        situation: the finding.
        message: the edge of a rank that waits in a message.
        one: that message, in words.
        other: the collective, in words.

    """
    first = departed_words.deciding_statement(situation)
    if first is None or deciders.form(first) != "condition":
        return None
    found = structure.around(situation, first)
    did = "not_taken" if found.is_else else "taken"
    gone = {side.rank for side in first.sides if side.did == did}
    rank, peer = message.waiting.rank, message.target[0]
    if found.jump is None or found.inside or gone not in ({rank}, {peer}):
        return None
    went = _WENT[found.jump]
    if gone == {peer}:
        end = "send" if message.waiting.op == "recv" else "recv"
        way = "to" if end == "send" else "from"
        return (
            f"rank {peer} {went} a {end} {way} rank {rank}, and waits in {other}; rank {rank} "
            f"waits in {one}",
            f"Let rank {peer} make its {end} also if it takes the `{found.jump}` of "
            f"{deciders.quoted(first)}. Or let it tell rank {rank} first that there is none.",
        )
    return (
        f"rank {rank} {went} {other}, and waits in {one}; rank {peer} waits for it",
        remedies.together(situation, first),
    )


def _with_collective(situation: Situation, cycle: Cycle) -> Words:
    """Return the words for a message and a collective that wait for each other."""
    message, channel = next(
        (edge, channel) for edge in cycle if (channel := edge.waiting.channel) is not None
    )
    collective = next(edge for edge in cycle if edge.waiting.channel is None)
    one, other = (
        wait_cycle.describe_wait(situation, message),
        wait_cycle.describe_wait(situation, collective),
    )
    rank, peer = message.waiting.rank, message.target[0]
    who = words_.ranks(edge.waiting.rank for edge in cycle)
    headline = f"{who} disagree: {one} or {other} first"
    counts = channel_counts.of_channel(situation.case, channel)
    fixes = [
        "Finish the exchange before the collective, or after it, on every rank alike: move the "
        f"{one} of rank {rank}, or {other}."
    ]
    if message.waiting.seq == 1:
        headline = f"{who} disagree: rank {rank} called {one}, the others {other}"
        log, verb = situation.case.log(peer), "sent" if channel.source == peer else "received"
        is_first = log is not None and not log.last_channel_seq.get(channel)
        never = f", and rank {peer} never {verb} one" if is_first else ""
        counts = f"Rank {rank} had never made this {message.waiting.op} before{never}."
        end = "send" if message.waiting.op == "recv" else "recv"
        fixes.insert(0, f"Let rank {peer} make its {end}, too, or leave out the {one}.")
    why, alike = _decided(situation)
    skipped = _skipped(situation, message, one, other)
    if skipped is not None:
        headline, fix = skipped
        return Words.of(headline, (*why, counts), (fix,))
    group = wait_cycle.smaller_group(situation, collective)
    uneven = f"If the other end does not come after it: {words_.lower(COUNT)}"
    fixes = [*group, *alike, *fixes, uneven]
    return Words.of(headline, (wait_cycle.waits(situation), counts, *why), fixes)
