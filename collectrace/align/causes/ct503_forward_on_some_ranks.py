"""Only some ranks ran a forward of a wrapped model, such as an evaluation on rank 0.

What it means
    A forward of DDP broadcasts buffers, in evaluation, too. A forward of a sharded model gathers
    the parameters of each module. So every rank must run it, from whichever line.

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

from typing import NamedTuple

from collectrace import words as text
from collectrace.align.causes import apart, control, phrases
from collectrace.align.causes.apart import Step
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.deciding import timeline
from collectrace.align.reading import chains

FORWARDS = ("ddp.forward.", "fsdp.unshard", "fsdp_one.unshard")

Found = tuple[Step, Step]


class Made(NamedTuple):
    """A call that a side made."""

    stack: tuple[str, ...]
    part: str | None


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
    is_alike = other.call is not None and other.call.role == mine.call.role
    models = {step.call.model for step in both if step.call is not None}
    if is_alike and (other.stack == mine.stack or len(models) > 1):
        return None
    first = control.first(situation)
    if first is not None and not control.is_condition(first):
        return None
    if any(one.stack == mine.stack for one in _made(situation, other)):
        return None
    parts = {one.part for one in _made(situation, mine) if one.stack == mine.stack}
    is_whole = mine.call.role.startswith("ddp.") or len(parts) > 1
    return both if is_whole else None


def _made(situation: Situation, step: Step) -> list[Made]:
    """Return the calls of a side, each with its stack and the module that it is of."""
    log = situation.case.log(step.rank)
    entries = timeline.before(log) if log is not None else []
    calls = [(one, apart.call_of(log, one)) for one in entries if log is not None]
    return [Made(one.stack, call.part) for one, call in calls if call is not None]


def words(situation: Situation, found: Found) -> Words:
    """Return the words for a forward that others did not run."""
    mine, other = found
    call = mine.call
    line = phrases.line(call.site if call is not None else None)
    does = "DDP's forward issues collectives (it broadcasts buffers), in evaluation, too."
    fix = (
        "Run the forward on every rank. Or, to evaluate on one rank only, call the wrapped module: "
        "model.module(...) issues no collective."
    )
    if call is not None and not call.role.startswith("ddp."):
        does = f"Each forward gathers parameters of modules from all ranks: {text.name(call)}."
        fix = "Run this forward on every rank."
    told, then = control.why(situation), apart.meets_others(situation)
    shared = min(chains.shared(mine.stack, other.stack), len(mine.stack) - 1)
    function = phrases.function(mine.stack[-1 - shared])
    inside = f" in {function}" if function else ""
    return Words(
        f"{mine.who} ran a forward{inside}{line} that {other.who} did not run",
        (does, *told[:1], *(then or told[1:])),
        (fix, *(f"Or {text.lower(one)}" for one in control.moved(situation, mine))),
    )
