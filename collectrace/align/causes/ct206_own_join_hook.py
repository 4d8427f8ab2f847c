"""A join hook of the script's own made another call than what it is to answer.

What it means
    A rank out of inputs runs the hooks of what ``join()`` was given. A hook of the script's own
    must make the same calls as its joinable makes for one input on the other ranks.

Example
    ::

        class Hook(JoinHook):
            def main_hook(self):
                dist.all_reduce(torch.zeros(1))     # the joinable reduces two elements

Not to be confused with
    CT201, if no hook is there to answer the call.

How to fix it
    Let ``main_hook`` make the same calls, of the same size and type, in the same order.
"""

from __future__ import annotations

from collectrace import words as text
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.findings import Side
from collectrace.records import Call

Found = tuple[tuple[Side, Call], tuple[Side, Call]]


def find(situation: Situation) -> Found | None:
    """Return the hook's call and the one that it met."""
    hooks = [(s, c) for s, c in situation.called if c.role == "join.own_hook"]
    others = [(s, c) for s, c in situation.called if c.role != "join.own_hook"]
    return (hooks[0], others[0]) if hooks and others else None


def words(_: Situation, found: Found) -> Words:
    """Return the words for a hook that does not fit."""
    (side, shadow), (other, call) = found
    who, others = text.ranks(side.ranks), text.ranks(other.ranks)
    return Words(
        f"the join hook of {who} made another call than {others}: {text.tensors(shadow)}, not "
        f"{text.tensors(call)}",
        (
            (
                f"{text.upper(who)} ran out of inputs, and the script's own join hook answers "
                f"{others}{text.at(call)}."
            ),
            f"It made {text.op(shadow)} where {others} made {text.op(call)}.",
        ),
        (
            (
                "Let the join hook (main_hook) make the same calls as its joinable does for one "
                "input: the same size and type, in the same order."
            ),
        ),
    )
