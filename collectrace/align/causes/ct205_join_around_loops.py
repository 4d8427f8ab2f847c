"""A ``join()`` is around several loops: a rank that has left one of them is still inside.

What it means
    ``join()`` answers for a rank only when its whole ``with`` block has ended there. A rank that
    has left one loop over batches, and is at the next loop or at a call behind it, does not answer
    the ranks that are still in the loop.

Example
    ::

        with model.join():
            for epoch in range(3):
                for batch in batches:               # one batch less on rank 1
                    model(batch).sum().backward()
                dist.all_reduce(metric)             # rank 1 waits here

Not to be confused with
    CT201, if the other rank is out of the block.

How to fix it
    Put ``with model.join():`` around each loop over the batches by itself.
"""

from __future__ import annotations

from collectrace import words as text
from collectrace.align.causes import apart, deciders, joins, phrases
from collectrace.align.causes.apart import Left
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words


def find(situation: Situation) -> Left | None:
    """Return the loop that one side has left inside the block that the other is in."""
    for left in apart.left_loops(situation):
        gone, inside = left.gone, left.inside
        if gone.call is None or inside.call is None or not inside.call.role.startswith("ddp."):
            continue
        if all(joins.is_inside(situation, step.rank, step.call) for step in (gone, inside)):
            return left
    return None


def words(_: Situation, left: Left) -> Words:
    """Return the words for a join() around several loops."""
    gone, inside = left.gone, left.inside
    call = phrases.call(gone.call) if gone.call is not None else "the call"
    return Words(
        f"{gone.who} left a loop inside join() that {inside.who} "
        f"{text.verb(inside.ranks, 'is', 'are')} still in",
        (
            (
                f"{text.upper(gone.who)} left the loop {deciders.quoted(left.loop)} earlier, and "
                f"went on to {call}; {inside.who} {text.verb(inside.ranks, 'is', 'are')} still in "
                "it."
            ),
            (
                "All are inside one join(), which answers for a rank only when its whole block has "
                "ended there."
            ),
        ),
        (
            (
                f"Put `with model.join():` around the loop at {text.site(left.loop.site)} alone, "
                f"and {call} after the block."
            ),
            "Or give every rank the same number of batches in each of these loops.",
        ),
    )
