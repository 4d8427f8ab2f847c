"""What goes into a call and what comes out do not fit the size of the group.

What it means
    An all_gather gives as many times the input as the group has ranks, a reduce_scatter takes as
    many. One rank passed tensors that do not fit each other.

Example
    ::

        out = torch.empty(4 * 4)    # in a group of 3 ranks
        dist.all_gather_into_tensor(out, torch.ones(4))

Not to be confused with
    CT306, if torch refused the call.

How to fix it
    Make the larger tensor as many times as large as the other as the group has ranks.
"""

from __future__ import annotations

from collectrace import words as text
from collectrace.align.causes import arguments
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.findings import Side
from collectrace.records import Call
from collectrace.signature import fits_itself


def find(situation: Situation) -> tuple[tuple[Side, Call], ...] | None:
    """Return the sides whose input and output do not fit each other."""
    size = situation.group_size
    found = tuple((s, c) for s, c in situation.called if not fits_itself(c, size))
    return found if found and size and arguments.are_one_call(situation) else None


def words(situation: Situation, found: tuple[tuple[Side, Call], ...]) -> Words:
    """Return the words for tensors that do not fit each other."""
    wrong = "; ".join(f"{text.ranks(side.ranks)}: {text.call(call)}" for side, call in found)
    return Words(
        arguments.headline(situation, text.tensors),
        (
            f"Input and output do not fit in a group of {situation.group_size} ranks: {wrong}.",
            *arguments.why(situation),
        ),
        ("Make the larger tensor as many times as large as the other as the group has ranks.",),
    )
