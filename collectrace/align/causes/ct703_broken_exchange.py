"""A rank departed from an exchange of messages that had worked before.

What it means
    A rank skipped a message or a collective, or made an extra one. Its partner waits for the
    skipped call, or does not make the other end of the extra one. So they wait for each other.

Example
    ::

        for batch in batches:
            if has_gradient(batch):
                dist.send(gradient, dst=previous)   # skipped for one batch
            dist.recv(x, src=previous)              # where it waits now

Not to be confused with
    CT701, if no rank departed: then the order of the messages is wrong. CT704, if the partner
    finished.

How to fix it
    Send a message in every iteration, with zeros if there is nothing to send. Or let both ends
    agree whether there is a message.
"""

from __future__ import annotations

from collectrace.align.causes import departed, departed_words
from collectrace.align.causes.departed import Departed
from collectrace.align.causes.situation import Situation


def find(situation: Situation) -> Departed | None:
    """Return how a rank departed, if some rank of the cycle waits in a message."""
    if all(edge.waiting.channel is None for edge in situation.candidate.cycle):
        return None
    return departed.find(situation)


words = departed_words.describe
