"""Only some ranks ran a wrapped model's forward, or made a call between a framework's own calls.

What it means
    DDP's forward broadcasts buffers, also in evaluation. A sharded model's forward gathers the
    parameters of each module. So every rank must run the forward, from any line. The same holds for
    the script's own collectives, and for framework functions with collectives that the script
    calls, such as saving a state dict. The other ranks are already in another part of the
    framework, and its collectives meet this call. The sizes may even match, and gradients are mixed
    with a metric.

Example
    ::

        loss = model(batch).sum()
        if rank == 0:
            evaluate(model)                     # DDP broadcasts buffers to nobody
            dist.all_reduce(loss.detach())      # the others are in backward()
        loss.backward()

Not to be confused with
    CT204, if ranks had different numbers of batches. CT511, if all ranks ran the forward, and some
    skipped a module. CT505, if the others are past their backward(). CT508, if a rank skipped a
    backward(). CT102, if no framework is involved.

How to fix it
    Make the call on every rank, or on none. To evaluate on one rank, call the inner module:
    ``model.module(...)``.
"""

from __future__ import annotations

from collections.abc import Sequence

from collectrace import words as text
from collectrace.align.causes import apart, collectives, control, deciders, phrases
from collectrace.align.causes.apart import NextCall
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.deciding import timeline
from collectrace.align.judging.own_calls import call_of
from collectrace.align.reading import chains
from collectrace.records import Call
from collectrace.signature import is_asked, is_user

FORWARDS = ("ddp.forward.", "fsdp.unshard", "fsdp_one.unshard")

Found = tuple[NextCall, Call, NextCall]


def find(situation: Situation) -> Found | None:
    """Return which side alone made such a call, the call, and the next call of the others."""
    both = apart.next_calls(situation)
    if both is None or both[0].call is None:
        return None
    found = both[0], both[0].call, both[1]
    return found if _is_forward(situation, *found) or _is_chosen(situation, *found) else None


def _is_forward(situation: Situation, mine: NextCall, call: Call, other: NextCall) -> bool:
    """Whether a side ran a whole forward, from a line that the others did not reach."""
    if not {*mine.ranks} <= {*situation.suspects} or not call.role.startswith(FORWARDS):
        return False
    is_alike = other.call is not None and other.call.role == call.role
    is_other_model = other.call is not None and other.call.model != call.model
    if is_alike and (other.stack == mine.stack or is_other_model):
        return False
    first = control.first(situation)
    if first is not None and not control.is_condition(first):
        return False
    if _parts(situation, other, mine.stack):
        return False
    return call.role.startswith("ddp.") or len(_parts(situation, mine, mine.stack)) > 1


def _is_chosen(situation: Situation, mine: NextCall, call: Call, other: NextCall) -> bool:
    """Whether a condition on the rank led to the call while the others are in a framework."""
    first = control.first(situation)
    if first is None or not is_asked(call):
        return False
    if is_user(call) and (other.call is None or is_asked(other.call)):
        return False  # no framework, or the others called it by name
    chosen = deciders.form(first) == "condition" and deciders.origin(first) == "rank"
    return chosen and control.lets_one_side(situation, first, mine, other)


def _parts(situation: Situation, step: NextCall, stack: Sequence[str]) -> set[str | None]:
    """Return the modules of the calls that a side made from the lines of a stack."""
    log = situation.case.log(step.rank)
    entries = timeline.calls_before(log) if log is not None else []
    calls = (call_of(situation.case, step.rank, one) for one in entries if one.stack == stack)
    return {call.part for call in calls if call is not None}


def words(situation: Situation, found: Found) -> Words:
    """Return the words for a call that others did not make."""
    mine, call, other = found
    told, then = control.why(situation), collectives.silent(situation)
    if not call.role.startswith(FORWARDS):
        name = phrases.function(mine.stack[0]) if len(mine.stack) > 1 else ""
        by = f" in {name}" if name else ""
        meanwhile: tuple[str, ...] = ()
        if other.call is not None:
            meanwhile = (f"Meanwhile {phrases.made(other.ranks, other.call)}.",)
        return Words(
            f"only {mine.subject} called {phrases.call(call)}{by}",
            (*told[:1], *meanwhile, *then),
            control.moved(situation, mine),
        )
    does = f"Each forward gathers parameters of modules from all ranks: {text.name(call)}."
    fixes: tuple[str, ...] = ()
    if call.role.startswith("ddp."):
        does = "DDP's forward issues collectives (it broadcasts buffers), in evaluation, too."
        fixes = (
            "Or, to evaluate on one rank only, call the wrapped module: model.module(...) issues "
            "no collective.",
        )
    here = (frame for frame in mine.stack if chains.site(frame) == call.site)
    function = phrases.function(next(here, ""))
    line = phrases.line(call.site)
    ran, did_not = f"{mine.subject} ran a forward", f"{line} that {other.subject} did not run"
    headline = f"{ran} in {function}{did_not}"
    if function[:1] in ("", "<") or len(headline) > phrases.HEADLINE:
        headline = ran + did_not
    return Words(
        headline,
        (does, *told[:1], *(then or told[1:])),
        (control.everywhere(situation, mine, f"this forward{line}"), *fixes),
    )
