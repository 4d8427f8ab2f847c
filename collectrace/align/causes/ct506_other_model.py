"""Ranks used several DDP models in another order, or each another one.

What it means
    Several DDP models share a group. What one of them sends looks like what another one sends, so
    gradients of different models meet. Results are wrong, and often nothing fails.

Example
    ::

        models = [critic, actor] if rank == 2 else [actor, critic]
        for model in models:
            model(batch).sum().backward()

Not to be confused with
    CT102, if a rank skipped one of the models.

How to fix it
    Run forward and backward of the models in the same order on every rank.
"""

from __future__ import annotations

from collectrace import roles
from collectrace import words as text
from collectrace.align.causes import control, deciders, phrases
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words


def find(situation: Situation) -> tuple[int, ...] | None:
    """Return the models of the sides, if all are in the same part of DDP."""
    sides = situation.called
    if len(sides) < 2 or len({call.role for _, call in sides}) > 1:
        return None
    if not sides[0][1].role.startswith("ddp."):
        return None
    models = tuple(call.model or 1 for _, call in sides)
    if len(set(models)) < 2:
        return None
    if len({(call.site, side.stack) for side, call in sides}) > 1 and _skipped(situation):
        return None
    return models


def _skipped(situation: Situation) -> bool:
    """Whether what decided is a condition that led past one of the models."""
    first = control.first(situation)
    return first is not None and deciders.form(first) == "condition"


def words(situation: Situation, models: tuple[int, ...]) -> Words:
    """Return the words for models in another order."""
    sides = situation.called
    told = text.listed([
        f"{text.ranks(s.ranks)} {text.verb(s.ranks, 'uses', 'use')} model {model}"
        for (s, _), model in zip(sides, models, strict=True)
    ])  # fmt: skip
    in_backward = roles.of(sides[0][1].role).in_backward
    met = "gradients of different models are added up" if in_backward else "they are mixed up"
    value = next((d for d in deciders.ranked(situation) if deciders.origin(d) != "agreed"), None)
    decided = deciders.quoted(value) if value is not None else ""
    which = (f"What {decided} works on can differ between the ranks.",) if decided else ()
    suspects = situation.suspects
    who = f"{text.ranks(suspects)} used DDP models" if suspects else "ranks disagree: DDP models"
    return Words(
        f"{who} in another order{phrases.line(sides[0][1].site)}",
        (f"{text.upper(told)}, counted as they were constructed: {met}.", *which),
        (
            (
                "Run forward and backward of the models in the same order on every rank"
                f"{phrases.line(value.site if value is not None else None)}."
            ),
            (
                "If each step chooses its model, let every rank choose alike: by the step's "
                "number or by one seed, or let one rank choose and broadcast it."
            ),
        ),
    )
