"""A call that one rank of a circle had always made there, and left out this time: in words."""

from __future__ import annotations

from collections.abc import Sequence

from collectrace import words
from collectrace.align.diagnosis import autograd
from collectrace.align.diagnosis.callers import closed, named
from collectrace.align.diagnosis.wording import Reason
from collectrace.align.judging.case import Case
from collectrace.align.judging.own_turn import NewTurn, new_turn
from collectrace.align.ranks.waitgraph import Edge


def reason(case: Case, cycle: Sequence[Edge], waits: str) -> Reason | None:
    """What the only rank of a circle that did something new there had called; None: not one did.

    ``waits``: who waits for whom, a sentence.
    """
    found = [new_turn(case, edge.waiting.rank) for edge in cycle]
    left = [one for one in found if one is not None]
    return _reason(case, left[0], waits) if len(left) == 1 else None


def _reason(case: Case, left: NewTurn, waits: str) -> Reason:
    rank, usual = left.rank, left.usual[0]
    before, *ways = (
        closed(named(case, rank, call, brief=True)) for call in (left.before, *left.usual)
    )
    made = named(case, rank, left.made, brief=True)
    went = f"made {before} once more" if closed(made) == before else f"went on to {made}"
    told = (
        f"{waits} Behind {before} rank {rank} had gone on to {' or to '.join(ways)} each of the "
        f"{left.times:,} times before; this time it {went}."
    )
    undecided = "The logs do not show which was meant."
    cut = autograd.of_one(case, rank, usual)
    if cut is not None:
        return Reason(f"{told}{cut.cause} {undecided}", cut.fix)
    return Reason(
        f"{told} {undecided}",
        f"Let rank {rank} call {ways[0]} as each time before; or, if it was meant to leave it out, "
        f"leave out {words.other_end(usual)} as well.",
    )
