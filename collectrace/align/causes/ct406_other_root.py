"""The ranks named different roots for one call.

What it means
    A rank that names another ``src`` or ``dst`` sends to, or waits for, a rank that does not know
    of it.

Example
    ::

        dist.broadcast(weights, src=source)     # 2 on rank 2, 0 on the others

Not to be confused with
    CT415, if each rank works the root out from its own number. CT413, if the ranks are at different
    elements of a sequence.

How to fix it
    Pass the same root on every rank: a global rank.
"""

from __future__ import annotations

from collectrace import words as text
from collectrace.align.causes import arguments
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.records import Call


def find(situation: Situation) -> str | None:
    """Return what torch calls the root of the call."""
    return text.root(situation.called[0][1]) if arguments.are_one_call(situation) else None


def show(call: Call) -> str:
    """Return ``src 2``."""
    return f"{text.root(call)} {call.root}"


def words(situation: Situation, found: str) -> Words:
    """Return the words for roots that differ."""
    named = [
        f"{text.ranks(side.ranks)} {text.verb(side.ranks, 'names', 'name')} "
        f"{'itself' if side.ranks == (call.root,) else f'rank {call.root}'}"
        for side, call in situation.called
    ]
    return Words(
        arguments.headline(situation, show),
        (
            f"The ranks name different roots for one {situation.called[0][1].op}: "
            f"{text.listed(named)}.",
            *arguments.why(situation),
        ),
        (
            f"Pass the same {found} on every rank, as a global rank. If it must be found out, let "
            "one rank decide, and broadcast it first.",
            *arguments.fixes(situation),
        ),
        arguments.before(situation, show),
        undecided=arguments.is_undecided(situation),
    )
