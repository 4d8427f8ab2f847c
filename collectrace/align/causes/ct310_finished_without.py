"""A rank finished without a call that the others wait in.

What it means
    The program of the rank ended as usual. It made fewer calls than the others, and the logs do not
    show which statement decided that.

Example
    ::

        for step in range(steps):   # 9 on rank 1, 10 on the others
            dist.all_reduce(loss)

Not to be confused with
    CT101 to CT106, if a statement is known that decided. CT313, if the rank left by ``sys.exit()``.

How to fix it
    Make the call on every rank, or on none.
"""

from __future__ import annotations

from collectrace import words as text
from collectrace.align.causes import phrases, waited_for
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.ranks.standing import Standing


def find(situation: Situation) -> tuple[Standing, ...] | None:
    """Return the ranks that finished."""
    return waited_for.those(situation, "finished") or None


def words(situation: Situation, found: tuple[Standing, ...]) -> Words:
    """Return the words for ranks that finished."""
    who, call = text.ranks(waited_for.numbers(found)), waited_for.call(situation)
    missed = waited_for.missed(situation)
    return Words(
        phrases.fitting(f"{who} finished without {call}", f"{who} finished and {missed}"),
        (
            f"{text.upper(who)} made all its calls and ended; the others made one more."
            f" {waited_for.waiting(situation)}",
            waited_for.last_calls(situation, found) or "It made no call at all.",
        ),
        (f"Make {call} on every rank, or on none: look for a branch or a loop around it.",),
        waited_for.interrupted(situation),
    )
