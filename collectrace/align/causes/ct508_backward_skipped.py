"""A rank skipped a whole iteration: it ran no backward() where the others did.

What it means
    Every iteration makes the same calls. So the next backward() of the rank that skipped one meets
    the others' of the iteration before, and nothing fails until the end. Results are wrong since.

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

from collectrace import words as text
from collectrace.align.causes import control, phrases, slips
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words


def find(situation: Situation) -> slips.Slip | None:
    """Return the iterations in which the suspects made no call."""
    return slips.slip(situation)


def words(situation: Situation, found: slips.Slip) -> Words:
    """Return the words for an iteration that was skipped."""
    who = text.ranks(situation.suspects)
    numbers = text.listed([str(n) for n in found.skipped[:3]])
    unit = (
        found.unit
        if len(found.skipped) == 1
        else {"batch": "batches"}.get(found.unit, "iterations")
    )
    call = phrases.call(found.call)
    return Words(
        f"{who} skipped {call} in {unit} {numbers}, {text.ranks((found.behind,))} did not",
        (
            *control.why(situation),
            (
                f"Since call {found.call.seq} its calls have met those of the iteration before on the "
                "other ranks: results are wrong since then."
            ),
        ),
        (
            (
                "Let every rank make the calls of every iteration: agree on what to leave out before "
                f"{call} (all_reduce of a flag), or go through the iteration with zeros."
            ),
            *control.fixes(situation),
        ),
    )
