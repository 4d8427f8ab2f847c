"""A call of the script's own stands among those of DDP, on some ranks only.

What it means
    The other ranks did not make the call, and are in a forward or backward of DDP already. What they
    send there meets the call: often the sizes even fit, and gradients are mixed with a metric.

Example
    ::

        loss = model(batch).sum()
        if rank == 0:
            dist.all_reduce(loss.detach())      # the others are in backward()
        loss.backward()

Not to be confused with
    CT505, if the others are behind their backward(). CT508, if a rank skipped a backward().

How to fix it
    Make the call on every rank, or on none.
"""

from __future__ import annotations

from collectrace import words as text
from collectrace.align.causes import apart, control, deciders, phrases
from collectrace.align.causes.apart import Step
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.signature import is_asked

Found = tuple[Step, Step]


def find(situation: Situation) -> Found | None:
    """Return who made a call under a condition on the rank, and who is in DDP."""
    both = apart.steps(situation)
    first = control.first(situation)
    if both is None or first is None or not situation.suspects:
        return None
    mine, other = both
    is_own = mine.call is not None and is_asked(mine.call)
    in_ddp = other.call is not None and other.call.role.startswith("ddp.")
    chosen = deciders.form(first) == "condition" and deciders.origin(first) == "rank"
    return both if is_own and in_ddp and chosen else None


def words(situation: Situation, found: Found) -> Words:
    """Return the words for a call among those of DDP."""
    mine, other = found
    if mine.call is None or other.call is None:
        raise ValueError(found)
    callers = mine.stack[1:-1]
    by = f" in {phrases.function(mine.stack[0])}" if callers or len(mine.stack) > 1 else ""
    return Words(
        f"only {mine.who} called {phrases.call(mine.call)}{by}, {other.who} "
        f"{text.verb(other.ranks, 'was', 'were')} in {text.name(other.call)}",
        (*control.why(situation), *filter(None, [apart.meets_others(situation)])),
        (
            f"Make {phrases.call(mine.call)} on every rank, or on none.",
            *control.fixes(situation),
        ),
    )
