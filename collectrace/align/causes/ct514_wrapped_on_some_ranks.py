"""Only some ranks constructed a wrapper such as DistributedDataParallel.

What it means
    The constructor compares the models over the group. Ranks that do not construct one at the same
    point make other calls. So it is with a model that is wrapped anew during the training.

Example
    ::

        if loss < 0.5:                              # on rank 0 only
            model = DistributedDataParallel(grown(model))

Not to be confused with
    CT501, if all ranks construct it, and the models differ.

How to fix it
    Construct the wrapper on every rank of its group, at the same point.
"""

from __future__ import annotations

from collectrace import words as text
from collectrace.align.causes import apart, control, phrases
from collectrace.align.causes.apart import Step
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words


def find(situation: Situation) -> Step | None:
    """Return who alone is in a constructor."""
    both = apart.steps(situation)
    for mine, other in (both, both[::-1]) if both is not None else ():
        if mine.call is None or not mine.call.role.endswith(".construct"):
            continue
        if other.call is not None and other.call.role == mine.call.role:
            return None
        if situation.suspects and not set(mine.ranks) & set(situation.suspects):
            return None
        return mine
    return None


def words(situation: Situation, found: Step) -> Words:
    """Return the words for a wrapper on some ranks only."""
    mine = found
    if mine.call is None:
        raise ValueError(found)
    return Words(
        f"only {mine.who} {text.verb(mine.ranks, 'is', 'are')} in {phrases.call(mine.call)}",
        (
            (
                f"{text.upper(text.issuer(mine.call))} compares the models over the group: every "
                "rank must construct one at the same point."
            ),
            *control.why(situation),
        ),
        (
            (
                f"Construct DistributedDataParallel{phrases.line(mine.call.site)} on every rank of "
                "its group, in the same order."
            ),
            *control.fixes(situation),
        ),
    )
