"""A framework made the same call on all ranks, with tensors of other sizes or types.

What it means
    The ranks are in one part of a framework, at one line. What they gave it differs: the sizes of
    the layers, of the buffers, of the inputs, or the number of tensors in a metric's state.

Example
    ::

        layer = nn.Linear(6, 9 if rank == 1 else 6)     # its shards have another size
        fully_shard(layer)

Not to be confused with
    CT502, for gradient buckets of DDP. CT501, for the models given to DDP.

How to fix it
    Give the framework tensors of the same size on every rank.
"""

from __future__ import annotations

from collectrace import words as text
from collectrace.align.causes import phrases
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.findings import Side
from collectrace.records import Call
from collectrace.signature import is_user

Found = list[tuple[Side, Call]]


def find(situation: Situation) -> Found | None:
    """Return the sides, if all are in one part of a framework at one line."""
    sides = situation.called
    if len(sides) < 2 or is_user(sides[0][1]):
        return None
    places = {(call.role, call.part, call.op, call.site, side.stack) for side, call in sides}
    return sides if len(places) == 1 else None


def words(situation: Situation, sides: Found) -> Words:
    """Return the words for sizes that differ."""
    call = sides[0][1]
    told = text.listed([f"{text.sized(c)} on {text.ranks(s.ranks)}" for s, c in sides])
    who = (
        f"{text.ranks(situation.suspects)} gave"
        if situation.suspects
        else "ranks disagree: they gave"
    )
    return Words(
        f"{who} {text.name(call)} tensors of another size{phrases.line(call.site)}",
        (
            (
                f"{text.upper(text.issuer(call))} made the same {call.op} on every rank, with other "
                f"sizes: {told}."
            ),
        ),
        (f"Give {text.name(call)} tensors of the same size and type on every rank.",),
    )
