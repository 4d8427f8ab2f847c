"""A message of a forward was made again within ``backward()``.

What it means
    Activation checkpointing runs a forward a second time within ``backward()``. A message in that
    forward is then made twice, but its partner makes the other end only once.

Example
    ::

        def layer(x):
            dist.recv(x, previous)                     # made again in backward()
            return linear(x)
        y = checkpoint(layer, x)

Not to be confused with
    CT510, if it is a collective.

How to fix it
    Keep messages out of checkpointed code: receive before it, and send after it.
"""

from __future__ import annotations

from collectrace import words as words_
from collectrace.align.causes import backwards, phrases, wait_cycle
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.reading import chains

Found = tuple[int, str]
"""A rank, and the line of the backward() that ran the forward again."""


def find(situation: Situation) -> Found | None:
    """Return the rank of a cycle that waits in a message of a forward within backward()."""
    for side in situation.candidate.sides:
        if side.call is None or side.call.peer is None or not situation.candidate.cycle:
            continue
        stack = side.stack or ()
        at = backwards.rerunning_depth(situation.case, stack)
        if at and backwards.is_alone(situation.case, stack[at]):
            return side.ranks[0], chains.site(stack[at])
    return None


def words(situation: Situation, found: Found) -> Words:
    """Return the words for a message that was made again."""
    rank, line = found
    call = wait_cycle.calls(situation)[rank]
    did = f"rank {rank} made {phrases.call(call)} again within backward()"
    who = words_.ranks(edge.waiting.rank for edge in situation.candidate.cycle)
    return Words(
        did if situation.suspects else f"{who} disagree: {did}",
        (
            f"The message is in a forward() that ran again within backward(){phrases.line(line)}, "
            "as a checkpointed part's does: torch.utils.checkpoint recomputes it.",
            wait_cycle.waits(situation),
        ),
        (
            "Keep messages out of what is recomputed: receive before the checkpointed part, "
            "and send after it.",
            "Or run that part without checkpoint().",
        ),
    )
