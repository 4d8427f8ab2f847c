"""Parameters took no part in the loss on some ranks, so DDP never sent their gradients there.

What it means
    DDP sends a bucket when all its parameters have their gradients. On a rank whose loss does not
    depend on some of them it never does, and the rank goes on while the others wait.

Example
    ::

        loss = one.sum() if rank == 1 else one.sum() + two.sum()
        loss.backward()

Not to be confused with
    CT508, if the whole backward() was skipped. CT509, if the call is of an autograd function.

How to fix it
    Let every parameter take part in the loss on every rank, or construct DDP with
    ``find_unused_parameters=True``.
"""

from __future__ import annotations

from collectrace import roles
from collectrace import words as text
from collectrace.align.causes import apart, backwards, deciders, phrases
from collectrace.align.causes.apart import Step
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words

Found = tuple[Step, Step]

_UNUSED = "Expected to have finished reduction in the prior iteration"
"""How DDP's own exception begins (torch 2.13, csrc/distributed/c10d/reducer.cpp)."""


def find(situation: Situation) -> Found | None:
    """Return who sent a bucket, and who went past it."""
    both = apart.steps(situation)
    for maker, gone in (both, both[::-1]) if both is not None else ():
        call = maker.call
        if call is None or not roles.of(call.role).is_bucket or call.role.startswith("join."):
            continue
        if gone.call is not None and roles.of(gone.call.role).in_backward:
            continue
        if gone.call is None and _says_so(situation, gone.rank):
            return maker, gone
        forms = {deciders.form(one) for one in situation.decisions}
        if not situation.decisions or forms & {"condition", "loop", "handler"}:
            continue
        if backwards.went_past(situation, maker, gone):
            return maker, gone
    return None


def _says_so(situation: Situation, rank: int) -> bool:
    log = situation.case.log(rank)
    return log is not None and log.exit is not None and _UNUSED in (log.exit.message or "")


def words(_: Situation, found: Found) -> Words:
    """Return the words for parameters that took no part in the loss."""
    maker, gone = found
    line = phrases.line(maker.call.site if maker.call is not None else None)
    beyond = f" to {phrases.call(gone.call)}" if gone.call is not None else ""
    return Words(
        f"{maker.who} sent a gradient bucket in backward(){line}, {gone.who} did not",
        (
            f"{text.upper(gone.who)} had gone on{beyond} without this bucket.",
            (
                "DDP sends a bucket when all its parameters have their gradients: on "
                f"{gone.who} some parameters took no part in the loss (unused)."
            ),
        ),
        (
            f"Let every parameter take part in the loss on every rank{line}.",
            "Or construct DDP with find_unused_parameters=True, on all ranks.",
        ),
    )
