"""Only some ranks ran a forward of a wrapped model, or made a call in the middle of a framework's.

What it means
    A forward of DDP broadcasts buffers, in evaluation, too. A forward of a sharded model gathers
    the parameters of each module. So every rank must run it, from whichever line. The same holds
    for the script's own calls, and for calls of a framework that the script requests, such as
    saving a state dict. The other ranks are in another part of the framework already. What they
    send there meets the call. Often the sizes even fit, and gradients are mixed with a metric.

Example
    ::

        loss = model(batch).sum()
        if rank == 0:
            evaluate(model)                     # DDP broadcasts buffers to nobody
            dist.all_reduce(loss.detach())      # the others are in backward()
        loss.backward()

Not to be confused with
    CT204, if ranks had another number of batches. CT511, if the ranks ran one forward, and some of
    them left a module out. CT505, if the others are behind their backward(). CT508, if a rank
    skipped a backward(). CT102, if no framework is at work.

How to fix it
    Make the call on every rank, or on none. Call the wrapped module, ``model.module(...)``, to
    evaluate on one rank.
"""

from __future__ import annotations

from typing import NamedTuple

from collectrace import words as text
from collectrace.align.causes import apart, control, deciders, phrases
from collectrace.align.causes.apart import Step
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.deciding import timeline
from collectrace.align.judging.own_calls import call_of
from collectrace.align.reading import chains
from collectrace.signature import is_asked, is_user

FORWARDS = ("ddp.forward.", "fsdp.unshard", "fsdp_one.unshard")

Found = tuple[Step, Step]


class Made(NamedTuple):
    """A call that a side made."""

    stack: tuple[str, ...]
    part: str | None


def find(situation: Situation) -> Found | None:
    """Return who alone made such a call, and the next call of the others."""
    both = apart.steps(situation)
    if both is None or both[0].call is None:
        return None
    is_it = _is_forward(situation, *both) or _is_chosen(situation, *both)
    return both if is_it else None


def _is_forward(situation: Situation, mine: Step, other: Step) -> bool:
    """Whether a side ran a whole forward, from a line to which the others did not come."""
    if not set(mine.ranks) <= set(situation.suspects) or mine.call is None:
        return False
    if not mine.call.role.startswith(FORWARDS):
        return False
    models = {step.call.model for step in (mine, other) if step.call is not None}
    is_alike = other.call is not None and other.call.role == mine.call.role
    if is_alike and (other.stack == mine.stack or len(models) > 1):
        return False
    first = control.first(situation)
    if first is not None and not control.is_condition(first):
        return False
    if any(one.stack == mine.stack for one in _made(situation, other)):
        return False
    parts = {one.part for one in _made(situation, mine) if one.stack == mine.stack}
    return mine.call.role.startswith("ddp.") or len(parts) > 1


def _is_chosen(situation: Situation, mine: Step, other: Step) -> bool:
    """Whether a condition on the rank led to the call, and the others are in a framework."""
    first = control.first(situation)
    if first is None or mine.call is None or not is_asked(mine.call):
        return False
    if is_user(mine.call) and (other.call is None or is_asked(other.call)):
        return False  # no framework, or it is asked for by the others
    chosen = deciders.form(first) == "condition" and deciders.origin(first) == "rank"
    return chosen and control.holds(situation, first, mine, other)


def _made(situation: Situation, step: Step) -> list[Made]:
    """Return the calls of a side, each with its stack and the module that it is of."""
    log = situation.case.log(step.rank)
    entries = timeline.before(log) if log is not None else []
    calls = [(one, call_of(situation.case, step.rank, one)) for one in entries]
    return [Made(one.stack, call.part) for one, call in calls if call is not None]


def words(situation: Situation, found: Found) -> Words:
    """Return the words for a call that others did not make."""
    mine, other = found
    call = mine.call
    if call is None:
        raise ValueError(found)
    told, then = control.why(situation), apart.meets_others(situation)
    moved = control.moved(situation, mine)
    if not call.role.startswith(FORWARDS):
        by = f" in {phrases.function(mine.stack[0])}" if len(mine.stack) > 1 else ""
        meanwhile: tuple[str, ...] = ()
        if other.call is not None:
            meanwhile = (f"Meanwhile {phrases.made(other.ranks, other.call)}.",)
        return Words(
            f"only {mine.who} called {phrases.call(call)}{by}",
            (*told[:1], *meanwhile, *then),
            moved,
        )
    does = f"Each forward gathers parameters of modules from all ranks: {text.name(call)}."
    fix = "Run this forward on every rank."
    if call.role.startswith("ddp."):
        does = "DDP's forward issues collectives (it broadcasts buffers), in evaluation, too."
        fix = (
            "Run the forward on every rank. Or, to evaluate on one rank only, call the wrapped "
            "module: model.module(...) issues no collective."
        )
    shared = min(chains.shared(mine.stack, other.stack), len(mine.stack) - 1)
    function = phrases.function(mine.stack[-1 - shared])
    inside = f" in {function}" if function else ""
    line = phrases.line(call.site)
    return Words(
        f"{mine.who} ran a forward{inside}{line} that {other.who} did not run",
        (does, *told[:1], *(then or told[1:])),
        (fix, *(f"Or {text.lower(one)}" for one in moved)),
    )
