"""A library decided, by something that is not the same on all ranks.

What it means
    The script's own code ran alike, and one line of it called a framework. There a condition or a
    loop sent the ranks different ways: it read a flag that the script had set on one rank only, or
    went through a list that has another length there.

Example
    ::

        if trainer.is_global_zero:
            trainer.should_stop = True      # Lightning's loop reads it on each rank

Not to be confused with
    CT102, if a statement of the script decided.

How to fix it
    Give the library the same value on every rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from collectrace import words as text
from collectrace.align.causes import apart, collectives, control, deciders, frameworks
from collectrace.align.causes.apart import Step
from collectrace.align.causes.framework_fixes import PARTED, Parted
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.reading import chains
from collectrace.findings import Decision


class Found(NamedTuple):
    """What is known of it."""

    decision: Decision | None
    """The statement of the library."""
    went: tuple[tuple[Step, str], ...] = ()
    """Either side, and the function by which it went on in the library."""
    parted: Parted | None = None
    """What that means; the first of ``went`` is over with it."""


def find(situation: Situation) -> Found | None:
    """Return the statement of a library that decided, or the functions where the sides parted."""
    decision = control.first(situation)
    if decision is not None and decision.library is None:
        return None
    known = decision if decision is not None and deciders.form(decision) != "handler" else None
    went = _went(situation)
    for row in PARTED if went else ():
        for over, going in (went, went[::-1]):
            if (over[1], going[1]) == (row.over, row.going):
                return Found(known, (over, going), row)
    return Found(known, went) if known is not None or went else None


def _went(situation: Situation) -> tuple[tuple[Step, str], ...]:
    """Return either side with the function of a library by which it parted from the other."""
    both = apart.steps(situation)
    if both is None or not both[0].stack or both[0].stack != both[1].stack:
        return ()
    paths: list[Sequence[str]] = [frameworks.path(situation, step) for step in both]
    shared = chains.shared(paths[0][::-1], paths[1][::-1])
    if not shared or shared >= min(map(len, paths)):
        return ()
    return tuple((step, path[shared]) for step, path in zip(both, paths, strict=True))


def words(situation: Situation, found: Found) -> Words:
    """Return the words for a library that decided."""
    headline = collectives.headline(situation)
    if found.parted is not None:
        (over, _), (going, _) = found.went
        meaning = found.parted.why.format(over=over.who, going=going.who)
        return Words(headline, (meaning,), (found.parted.fix,))
    told = text.listed([f"{step.who} in {function}()" for step, function in found.went])
    why = (f"The same line called a library on all ranks: then {told}.",) if told else ()
    decision = found.decision
    if decision is None:
        fix = "Give the library the same values on every rank: look for what it decides by."
        return Words(headline, why, (fix,))
    said, library = deciders.quoted(decision), decision.library
    return Words(
        headline,
        (*why, f"{deciders.what_it_did(situation, decision)} It is a statement of {library}."),
        (
            (
                f"Give {library} the same value on every rank for what {said} reads: set it on "
                "every rank, or agree on it first (all_reduce)."
            ),
        ),
    )
