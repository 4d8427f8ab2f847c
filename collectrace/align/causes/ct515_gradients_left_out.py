"""The gradients of a module of a sharded model did not come on some ranks.

What it means
    A sharded model gathers a module's parameters again for its backward, and reduces its gradients.
    It does so only if the loss depends on what the module computed, and not while gradients are
    accumulated.

Example
    ::

        loss = trunk(x).sum() + keep * branch(x).sum()      # keep is 0.0 on rank 1: left out

Not to be confused with
    CT511, if the module was not run at all. CT505, for DDP.

How to fix it
    Let what the module computes take part in the loss on every rank, times zero if not wanted.
"""

from __future__ import annotations

from collectrace import words as text
from collectrace.align.causes import control, sharded
from collectrace.align.causes.sharded import Apart
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words


def find(situation: Situation) -> Apart | None:
    """Return the sides that are in different modules of one backward()."""
    found = sharded.apart(situation)
    return found if found is not None and found.in_backward else None


def words(situation: Situation, found: Apart) -> Words:
    """Return the words for gradients that did not come."""
    who = text.ranks(situation.suspects) if situation.suspects else "some ranks"
    return Words(
        f"{sharded.told(found.mine)}, {sharded.told(found.other)}",
        (
            f"They are in different modules of one backward(){sharded.line(found.mine)}.",
            (
                f"On {who} the gradients of a module did not come: what it computed took no part "
                "in the loss, or they were not reduced in this step."
            ),
            *control.why(situation)[:1],
        ),
        (
            (
                "Let what the module computes take part in the loss on every rank, times zero "
                "where it is not wanted (loss + 0 * out.sum())."
            ),
            (
                "Or, where gradients are accumulated, let every rank reduce them after the same "
                "number of micro-batches."
            ),
        ),
    )
