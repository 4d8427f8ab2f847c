"""Only some ranks ran a forward of a wrapped model, such as an evaluation on rank 0.

What it means
    A forward of DDP broadcasts buffers, in evaluation, too. A forward of a sharded model gathers the
    parameters of each module. So every rank must run it, from whichever line.

Example
    ::

        if rank == 0:
            evaluate(model)         # DDP broadcasts buffers to nobody

Not to be confused with
    CT204, if ranks had another number of batches. CT511, if the ranks ran one forward, and some of
    them left a module out.

How to fix it
    Call the wrapped module, ``model.module(...)``, to run it on one rank, or run the forward on
    every rank.
"""

from __future__ import annotations

from collectrace import words as text
from collectrace.align.causes import apart, control, deciders, phrases
from collectrace.align.causes.apart import Step
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.deciding import timeline

FORWARDS = ("ddp.forward.", "fsdp.unshard", "fsdp_one.unshard")

Found = tuple[Step, Step]


def find(situation: Situation) -> Found | None:
    """Return who alone ran a forward, from a line to which the others did not come."""
    both = apart.steps(situation)
    if both is None:
        return None
    mine, other = both
    if not situation.suspects or not set(mine.ranks) <= set(situation.suspects):
        return None
    if mine.call is None or not mine.call.role.startswith(FORWARDS):
        return None
    if other.call is not None and other.call.role == mine.call.role:
        if other.stack == mine.stack or other.call.model != mine.call.model:
            return None
    first = control.first(situation)
    if first is None or deciders.form(first) != "condition":
        return None
    log = situation.case.log(other.rank)
    made = timeline.before(log) if log is not None else []
    return None if any(one.stack == mine.stack for one in made) else both


def words(situation: Situation, found: Found) -> Words:
    """Return the words for a forward that others did not run."""
    mine, other = found
    call = mine.call
    line = phrases.line(call.site if call is not None else None)
    does, fix = (
        "DDP's forward issues collectives (it broadcasts buffers), in evaluation, too.",
        (
            "Run the forward on every rank. Or, to evaluate on one rank only, call the wrapped "
            "module: model.module(...) issues no collective."
        ),
    )
    if call is not None and not call.role.startswith("ddp."):
        does = f"Each forward gathers the parameters of its modules from all ranks ({text.name(call)})."
        fix = "Run this forward on every rank."
    told = control.why(situation)
    then = apart.meets_others(situation)
    callers = [phrases.function(f) for f in mine.stack[: len(mine.stack) - _shared(mine, other)]]
    inside = f" in {callers[-1]}" if callers and callers[-1] else ""
    return Words(
        f"{mine.who} ran a forward{inside}{line} that {other.who} did not run",
        (does, *told[:1], *([then] if then else told[1:])),
        (fix, f"Or m{control.moved(situation, mine)}"),
    )


def _shared(mine: Step, other: Step) -> int:
    pairs = zip(reversed(mine.stack), reversed(other.stack), strict=False)
    shared = 0
    for one, two in pairs:
        if one != two:
            break
        shared += 1
    return min(shared, len(mine.stack) - 1)
