"""Some ranks ran a DDP model inside ``join()``, and others outside of it.

What it means
    Inside ``join()`` a forward and a backward of DDP make calls of their own, which tell ranks
    without inputs what to answer. Outside they do not. So the same model makes other calls.

Example
    ::

        with model.join(enable=len(mine) != len(longest)):     # true on one rank only
            train(model, mine)

Not to be confused with
    CT201 and CT202, if all ranks are inside.

How to fix it
    Enter ``model.join()`` on every rank, or on none.
"""

from __future__ import annotations

from typing import NamedTuple

from collectrace import words as text
from collectrace.align.causes import collectives, joins, phrases
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words


class Inside(NamedTuple):
    """Ranks inside and outside."""

    inside: tuple[int, ...]
    outside: tuple[int, ...]
    site: str | None
    """Of the ``with`` block."""


def find(situation: Situation) -> Inside | None:
    """Return who is inside join() and who is not, where all work with DDP."""
    sides = situation.called
    if len(sides) < 2 or not all(call.role.startswith("ddp.") for _, call in sides):
        return None
    if len({(call.iteration, call.model or 1) for _, call in sides}) > 1:
        return None
    made = [(rank, side.call) for side, _ in sides for rank in side.ranks]
    inside = tuple(rank for rank, call in made if joins.is_inside(situation, rank, call))
    outside = tuple(rank for rank, _ in made if rank not in inside)
    if not inside or not outside:
        return None
    call = next(call for rank, call in made if rank == inside[0])
    entered = joins.latest(situation, inside[0], call)
    return Inside(inside, outside, entered.site if entered is not None else None)


def words(situation: Situation, found: Inside) -> Words:
    """Return the words for a join() on some ranks only."""
    who, others = text.ranks(found.inside), text.ranks(found.outside)
    return Words(
        f"{who} ran the model inside join(){phrases.line(found.site)}, {others} outside",
        (
            f"{collectives.headline(situation)}.",
            (
                "Inside join() DDP's forward and backward make calls of their own, which they do "
                "not make outside."
            ),
        ),
        (
            (
                f"Enter model.join(){phrases.line(found.site)} on every rank, or on none. If "
                "join(enable=...) depends on the number of batches, let all ranks agree on it "
                "first (all_reduce), or always enable it."
            ),
        ),
    )
