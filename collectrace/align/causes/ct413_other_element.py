"""One line goes through several tensors, and the ranks are at different ones.

What it means
    No tensor is wrong. A rank skipped an element, has one more, or goes through them in another
    order, so its call meets that for another element.

Example
    ::

        for p in model.parameters():
            if p.grad is not None:      # None on rank 1
                dist.all_reduce(p.grad)

Not to be confused with
    CT403, if the ranks are at the same element and its size differs.

How to fix it
    Go through the same elements in the same order on every rank.
"""

from __future__ import annotations

from typing import Literal

from collectrace import words as text
from collectrace.align.causes import arguments, deciders
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.matching import habit
from collectrace.findings import Side
from collectrace.signature import is_asked, numel

How = Literal["order", "round", "usual"]
"""How it is known: the ranks go on with the same elements in another order; one is not where it was
in each round before; or all have passed both tensors before."""


def find(situation: Situation) -> How | None:
    """Return how it is known that the ranks are at different elements."""
    if not arguments.are_one_call(situation) or not arguments.are_at_one_place(situation):
        return None
    calls = [call for _, call in situation.called]
    if not all(map(is_asked, calls)):
        return None
    if arguments.is_permuted(situation):
        return "order"
    if len({str(numel(call.shape)) for call in calls}) == 1:
        return None  # one tensor that came out otherwise
    if any(_left_round(situation, side) for side, _ in situation.called):
        return "round"
    is_one = arguments.differ_in_first_only(calls)
    return "usual" if not is_one and arguments.all_usual(situation) else None


def _left_round(situation: Situation, side: Side) -> bool:
    """Return whether a side passes another element than its round leads to, and others not."""
    numbers: dict[object, int] = {}
    steps = [numbers.setdefault(one, len(numbers)) for one in arguments.history(situation, side)]
    place = habit.expected(steps, len(steps))
    if place is None or place == len(steps) - 1 or side.call is None:
        return False
    mine = numbers.get(arguments.kind(side.call))
    others = {numbers.get(arguments.kind(one.call)) for one, _ in situation.called
              if one is not side and one.call is not None}  # fmt: skip
    return mine is not None and mine != steps[place] and steps[place] in others


def _show(situation: Situation) -> arguments.Show:
    """Return what names the argument in which the calls differ."""
    match situation.kind:
        case "reduce_op_mismatch":
            return lambda call: call.reduce_op or "no op"
        case "root_mismatch":
            return lambda call: f"{text.root(call)} {call.root}"
        case _:
            return text.tensors


def words(situation: Situation, found: How) -> Words:
    """Return the words for ranks that are at different elements."""
    decisions = arguments.deciding(situation)
    known = {
        "order": "From here on the ranks make the same calls in another order, as where they go "
        "over a set (its order depends on PYTHONHASHSEED).",
        "round": "In the iterations before, all ranks passed both in the same order.",
        "usual": "Every rank has passed both at this line before.",
    }[found]
    loops = [one for one in decisions if arguments.is_over_names(one)]
    through = f" in {deciders.quoted(loops[0])}" if loops else ""
    others = [deciders.fix(situation, one) for one in decisions
              if deciders.form(one) in ("condition", "handler")]  # fmt: skip
    same = (
        f"Go through the same elements in the same order on every rank{through}: sort a set, or a "
        "dict that each rank fills by itself."
    )
    rest = (
        "If a rank has fewer of them: agree on their number first, or join them into one tensor "
        "(torch.cat). Let a rank that has nothing for one take part with zeros."
    )
    how = (
        "."
        if found == "order"
        else ": a rank skipped an iteration, has one more, or goes through them in another order."
    )
    return Words(
        arguments.headline(situation, _show(situation)),
        (
            known,
            f"So they are at different elements of what {arguments.place(situation)} goes through"
            f"{through}{how}",
            *arguments.why(situation),
        ),
        (*others[:1], same, rest) if found != "order" else (same,),
    )
