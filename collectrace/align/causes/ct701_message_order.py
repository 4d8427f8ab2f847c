"""Ranks wait for each other's messages, because each begins with the same operation.

What it means
    Every rank of a cycle waits in a message, and what it waits for comes later in the program of
    the next rank. For example both receive before they send. Nothing shows that a message is
    missing.

Example
    ::

        dist.recv(theirs, peer)    # both ranks wait here
        dist.send(mine, peer)

Not to be confused with
    CT703, if a rank departed from an exchange that had worked before.

How to fix it
    Let one of the ranks send first, or pass both messages to ``batch_isend_irecv``.
"""

from __future__ import annotations

from collectrace import words as words_
from collectrace.align.causes import departed, phrases, wait_cycle
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.ranks.waitgraph import Cycle
from collectrace.records import Call


def find(situation: Situation) -> Cycle | None:
    """Return a cycle of messages in which nobody departed, or all ranks are at one line."""
    cycle = situation.candidate.cycle
    channels = [edge.waiting.channel for edge in cycle]
    if not cycle or any(one is None or one.source < 0 for one in channels):
        return None
    at_one_line = len({edge.waiting.site for edge in cycle}) == 1
    if situation.is_tie and (at_one_line or departed.find(situation) is None):
        return cycle
    return None


def words(situation: Situation, found: Cycle) -> Words:
    """Return the words for messages that wait for each other."""
    calls = wait_cycle.calls(situation)
    made = [calls[edge.waiting.rank] for edge in found if edge.waiting.rank in calls]
    who = words_.ranks(edge.waiting.rank for edge in found)
    places = {(one.op, one.site) for one in made}
    if len(places) == 1:
        each = f"each waits in {words_.message(made[0])}{phrases.line(made[0].site)}"
    else:
        ops = sorted({one.op for one in made})
        each = f"each waits in its {' or '.join(ops)}"
    return Words(
        f"{who} disagree on the order of messages: {each} first",
        (wait_cycle.waits(situation), *_first_time(situation, found)),
        _fixes(found, made),
    )


def _fixes(cycle: Cycle, made: list[Call]) -> tuple[str, ...]:
    if all(one.api == "batch_isend_irecv" for one in made):
        return (
            (
                "Pass a send, and the recv that the same two ranks exchange beside it, to one "
                "batch_isend_irecv([...]) on both ranks. If a list of messages is cut into several "
                "batches, cut it at the same messages on every rank, in the same order."
            ),
            "Or issue all batches before the first wait().",
        )
    first, before = cycle[0].waiting, cycle[-1].waiting
    other = "send" if before.op == "recv" else "recv"
    ends = ("", "")
    if other == first.op:
        way = "to" if other == "send" else "from"
        ends = f" {way} rank {before.rank}", f" {way} rank {cycle[0].target[0]}"
    place = phrases.line(made[0].site) if made else ""
    return (
        (f"Let rank {first.rank} make its {other}{ends[0]} before its {first.op}{ends[1]}{place}."),
        (
            "Or pass both to batch_isend_irecv([P2POp(isend, ...), P2POp(irecv, ...)]) on every "
            "rank: it cannot block like this."
        ),
    )


def _first_time(situation: Situation, cycle: Cycle) -> tuple[str, ...]:
    """Return that a rank had no such message before, so that there was no cycle; or nothing."""
    for edge in cycle:
        rank, channel, seq = edge.waiting.rank, edge.waiting.channel, edge.waiting.seq
        log = situation.case.log(rank)
        if channel is None or log is None or seq != 1:
            continue
        if max(log.last_channel_seq.values()) > 1:
            is_recv = edge.waiting.op == "recv"
            peer = f"from rank {channel.source}" if is_recv else f"to rank {channel.destination}"
            return (
                f"In the iterations before, rank {rank} called no {edge.waiting.op} {peer}, so "
                "there was no cycle.",
            )
    return ()
