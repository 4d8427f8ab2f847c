"""Every rank worked out the root of a call from its own number.

What it means
    Each rank names itself, or the first rank that it is not itself. No rank is more right than the
    others: a root must be the same on all of them.

Example
    ::

        dist.broadcast(weights, src=rank)

Not to be confused with
    CT406, if one rank names another root than the others.

How to fix it
    Pass the same root on every rank, or make one call for each root on all ranks.
"""

from __future__ import annotations

from typing import Literal

from collectrace import words as text
from collectrace.align.causes import arguments, ct406_other_root
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.matching.comparison import Divergence

Rule = Literal["itself", "the first other rank"]


def find(situation: Situation) -> Rule | None:
    """Return the rule by which every rank names its root."""
    source = situation.candidate.source
    if not isinstance(source, Divergence):
        return None
    ranks = source.group.ranks
    roots = {rank: call.root for rank, call in source.calls.items() if call is not None}
    if len(roots) < len(ranks) or len(ranks) < 2 or not arguments.are_one_call(situation):
        return None
    if all(root == rank for rank, root in roots.items()):
        return "itself"
    firsts = {rank: ranks[1] if rank == ranks[0] else ranks[0] for rank in ranks}
    others = all(root == firsts[rank] for rank, root in roots.items())
    return "the first other rank" if others and not situation.suspects else None


def words(situation: Situation, found: Rule) -> Words:
    """Return the words for roots that come from the rank's own number."""
    call = situation.called[0][1]
    root = text.root(call)
    return Words(
        arguments.headline(situation, ct406_other_root.show),
        (
            f"Every rank names {found} as the root: {root} comes from the rank's own number.",
            *arguments.why(situation),
        ),
        (
            f"Pass the same {root} on every rank, as a global rank.",
            f"If several ranks need it, let all ranks call {text.name(call)} once for each of "
            "them.",
        ),
    )
