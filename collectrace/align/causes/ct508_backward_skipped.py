"""A rank skipped a backward() that the others ran, alone or with its whole iteration.

What it means
    Iterations, and models of one size, make the same calls. So the next backward() of the rank that
    skipped one meets another one of the others, and nothing fails until the end. Results are wrong.

Example
    ::

        if not loss.isfinite():
            continue                # skips backward() on one rank
        loss.backward()

Not to be confused with
    CT504, if the iterations ran inside ``no_sync()``. CT204, if a rank had fewer batches.

How to fix it
    Agree on the batches to leave out before backward().
"""

from __future__ import annotations

from typing import NamedTuple

from collectrace import roles
from collectrace import words as text
from collectrace.align.causes import apart, control, ct104_handled_exception, phrases
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.judging import departures
from collectrace.records import Call


class Skipped(NamedTuple):
    """What the suspects skipped."""

    call: Call
    rank: int
    """One that made it."""
    iteration: int | None = None
    """That was skipped as a whole; None: only the call was."""


def find(situation: Situation) -> Skipped | None:
    """Return the backward() that the suspects skipped."""
    if situation.decisions and ct104_handled_exception.find(situation) is not None:
        return None
    found = departures.skipped_iterations(situation.case, situation.candidate, situation.suspects)
    if found is not None:
        return Skipped(found.calls[0], found.others[0], found.iteration)
    both, first = apart.steps(situation), control.first(situation)
    if both is None or first is None or not control.is_condition(first):
        return None
    (mine, call), (other, due) = ((step, step.call) for step in both)
    if call is None or due is None or not control.holds(situation, first, other, mine):
        return None
    in_backward = roles.of(call.role).in_backward and roles.of(due.role).in_backward
    return Skipped(due, other.rank) if in_backward and call.model != due.model else None


def words(situation: Situation, found: Skipped) -> Words:
    """Return the words for a backward() that was skipped."""
    who, call = text.ranks(situation.suspects), phrases.call(found.call)
    model = text.of_model(found.call)
    which = f" in iteration {found.iteration}" if found.iteration is not None else model
    return Words(
        f"{who} skipped {call}{which}, rank {found.rank} did not",
        (
            *control.why(situation),
            (
                f"Since call {found.call.seq} its calls have met other ones of the other ranks: "
                "results are wrong since then."
            ),
        ),
        (
            (
                "Make the call on every rank or on none: agree on what to leave out before "
                f"{call} (all_reduce of a flag), or go through it with zeros."
            ),
            *control.fixes(situation),
        ),
    )
