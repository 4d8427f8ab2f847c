"""The ranks made two calls in swapped order, and the bytes agree.

What it means
    Each call met the other one. Nothing failed, but values that do not belong together were
    combined.

Example
    ::

        for metric in metrics:      # accuracy before loss on rank 1
            dist.all_reduce(metric)

Not to be confused with
    CT307, if two threads make the calls. CT604, if two lines exchanged their groups. CT413, if one
    line makes both.

How to fix it
    Make the calls in the same order on every rank.
"""

from __future__ import annotations

from collectrace import words as text
from collectrace.align.causes import arguments, deciders, phrases
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.matching.comparison import Divergence


def find(situation: Situation) -> tuple[str, ...] | None:
    """Return the lines that are swapped."""
    source = situation.candidate.source
    if not isinstance(source, Divergence) or not source.swapped or source.crosses is not None:
        return None
    return tuple(text.site(call.site or "?") for _, call in situation.called)


def words(situation: Situation, found: tuple[str, ...]) -> Words:
    """Return the words for calls that are swapped."""
    who = text.ranks(situation.suspects) if situation.suspects else "some ranks"
    name, lines = text.name(situation.called[0][1]), text.listed(found)
    decided = deciders.ranked(situation)[:1]
    return Words(
        phrases.fitting(
            f"{who} made the {name} calls at {lines} in swapped order",
            f"{who} made two {name} calls in swapped order",
        ),
        (
            f"The ranks make the calls at {lines} in different orders, so values that do not "
            "belong together are combined.",
            arguments.silent(situation),
            *(deciders.what_it_did(situation, one) for one in decided),
        ),
        (
            f"Make the calls at {lines} in the same order on every rank: never iterate over a set, "
            "or over a dict that is filled in another order.",
        ),
    )
