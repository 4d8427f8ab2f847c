"""Some ranks left out a module of a sharded model, in the forward or in what the loss depends on.

What it means
    A sharded model gathers the parameters of each module before its forward and its backward, and
    reduces its gradients. A rank that does not run a module, or whose loss does not depend on it,
    makes fewer calls, and meets those of other modules.

Example
    ::

        for layer in self.layers:
            if torch.rand(()) > 0.1:        # another number on each rank
                x = layer(x)

Not to be confused with
    CT503, if only some ranks ran the whole forward. CT512, if only some kept parameters gathered.

How to fix it
    Let every rank run the same modules, times zero where one is not wanted.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from collectrace import words as text
from collectrace.align.causes import apart, collectives, control
from collectrace.align.causes.apart import Step
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words

GATHERS: Final = frozenset({"fsdp.unshard", "fsdp_one.unshard", "deepspeed.fetch"})
REDUCES: Final = frozenset(
    {"fsdp.reduce_scatter", "fsdp.all_reduce", "fsdp_one.reduce_scatter", "fsdp_one.all_reduce"}
)


class Found(NamedTuple):
    """Two sides in different modules."""

    mine: Step
    other: Step
    what: Literal["forward", "gradients"]


def find(situation: Situation) -> Found | None:
    """Return the sides that are in different modules of one statement."""
    both = apart.steps(situation)
    if both is None:
        return None
    for mine, other in (both, tuple(apart.at_finding(situation)[:2])):
        if mine.call is None or other.call is None:
            continue
        roles = {mine.call.role, other.call.role}
        if not roles <= GATHERS | REDUCES:
            continue
        if (mine.call.role, mine.call.part) == (other.call.role, other.call.part):
            continue
        if mine.stack != other.stack:
            return None
        in_backward = roles & REDUCES or any(
            step.call is not None and was_run(situation, step.rank, step.call.part, step.call.seq)
            for step in (mine, other)
        )
        return Found(mine, other, "gradients" if in_backward else "forward")
    return None


def was_run(situation: Situation, rank: int, part: str | None, seq: int) -> bool:
    """Whether a rank has gathered a module since it last reduced its gradients."""
    before = situation.case.before(rank, situation.candidate.stream, seq)
    own = [one.role for one in before if one is not None and one.part == part][-2:]
    if not any(one is not None and one.role in REDUCES for one in before):
        return False
    return own[-1:] != [] and own[-1] in GATHERS and (len(own) == 1 or own[0] in REDUCES)


def words(situation: Situation, found: Found) -> Words:
    """Return the words for a module that was left out."""
    told = control.why(situation)
    if found.what == "gradients":
        return Words(
            collectives.headline(situation),
            (
                f"In backward() {_in(found.mine)} and {_in(found.other)}.",
                (
                    "The gradients of a module did not come on some ranks: what it computed took no "
                    "part in the loss there."
                ),
                *told[:1],
            ),
            (
                (
                    "Let what the module computes take part in the loss on every rank, times zero where "
                    "it is not wanted (loss + 0 * out.sum())."
                ),
                (
                    "Or, where gradients are accumulated, let every rank reduce them after the same "
                    "number of micro-batches."
                ),
            ),
        )
    return Words(
        collectives.headline(situation),
        (
            (
                f"The ranks run other modules: {_in(found.mine)} and {_in(found.other)}. A module was "
                "skipped on some ranks only, or they run in another order."
            ),
            *told,
        ),
        ("Let every rank run the same modules in the same order.", *control.fixes(situation)),
    )


def _in(step: Step) -> str:
    verb = text.verb(step.ranks, "is", "are")
    return f"{step.who} {verb} in {text.name(step.call)}" if step.call is not None else step.who
