"""Ranks wait for each other: one for a lock or another resource that a rank in a call holds.

What it means
    A rank waits in a collective for another rank. That one waits for something which the first
    holds: the lock of a file, or a pipe that only the first can write to. Neither can go on.

Example
    ::

        with FileLock("cache.lock"):        # rank 1 waits here
            dist.all_reduce(loss)           # rank 0 waits here, and holds the lock

Not to be confused with
    CT302, if the rank that holds the lock waits for nobody: then it is busy, or stopped. CT606, if
    all ranks of the cycle wait in collectives.

How to fix it
    Release the lock before the collective. If one rank must do something first, let it do so and
    release the lock. Let the others wait in a barrier, not for the lock.
"""

from __future__ import annotations

from collectrace import words as text
from collectrace.align.causes import phrases, wait_cycle
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.ranks.standing import HOST
from collectrace.align.ranks.waitgraph import Cycle


def find(situation: Situation) -> Cycle | None:
    """Return the cycle, if a rank of it waits in no call."""
    cycle = situation.candidate.cycle
    return cycle if any(edge.waiting.what == HOST for edge in cycle) else None


def words(situation: Situation, found: Cycle) -> Words:
    """Return the words for ranks that wait for each other's resources."""
    waits = [edge.waiting for edge in found]
    who = text.ranks(w.rank for w in waits)
    calls = [wait_cycle.what(situation, e) for e in found if e.waiting.what != HOST]
    noun = next(w.op for w in waits if w.what == HOST)
    call = calls[0] if calls else "the call"
    holders = text.ranks(e.target[0] for e in found if e.waiting.what == HOST)
    return Words(
        phrases.fitting(
            f"{who} wait for each other: in {call}, and for {noun}",
            f"{who} wait for each other",
        ),
        (wait_cycle.waits(situation),),
        (
            f"Let {holders} release the {noun.partition(' ')[2]} before {call}: no rank may "
            "hold it across a collective.",
            "If one rank must do something first, let the others wait for it in a barrier.",
        ),
    )
