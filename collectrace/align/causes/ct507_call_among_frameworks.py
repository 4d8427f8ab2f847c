"""Only some ranks made a call that stands among those of a framework.

What it means
    A condition on the rank let some ranks make the call: of the script's own, or of a framework
    that the script asks for it by name, such as saving a state dict. The other ranks did not make
    it, and are in a forward, a backward or another part of a framework already. What they send
    there meets the call: often the sizes even fit, and gradients are mixed with a metric.

Example
    ::

        loss = model(batch).sum()
        if rank == 0:
            dist.all_reduce(loss.detach())      # the others are in backward()
        loss.backward()

Not to be confused with
    CT505, if the others are behind their backward(). CT508, if a rank skipped a backward(). CT102,
    if no framework is at work.

How to fix it
    Make the call on every rank, or on none.
"""

from __future__ import annotations

from collectrace.align.causes import apart, control, deciders, phrases
from collectrace.align.causes.apart import Step
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.signature import is_asked, is_user

Found = tuple[Step, Step]


def find(situation: Situation) -> Found | None:
    """Return who made a call under a condition on the rank, and who did not, beside a framework."""
    both, first = apart.steps(situation), control.first(situation)
    if both is None or first is None:
        return None
    mine, other = both
    if mine.call is None or not is_asked(mine.call):
        return None
    if is_user(mine.call) and (other.call is None or is_asked(other.call)):
        return None  # no framework, or it is asked for by the others
    chosen = deciders.form(first) == "condition" and deciders.origin(first) == "rank"
    return both if chosen and control.holds(situation, first, mine, other) else None


def words(situation: Situation, found: Found) -> Words:
    """Return the words for a call among those of a framework."""
    mine, other = found
    if mine.call is None:
        raise ValueError(found)
    by = f" in {phrases.function(mine.stack[0])}" if len(mine.stack) > 1 else ""
    decided = control.why(situation)
    instead = []
    if other.call is not None:
        instead.append(f"Meanwhile {phrases.made(other.ranks, other.call)}.")
    return Words(
        f"only {mine.who} called {phrases.call(mine.call)}{by}",
        (*decided[:1], *instead, *apart.meets_others(situation)),
        control.moved(situation, mine),
    )
