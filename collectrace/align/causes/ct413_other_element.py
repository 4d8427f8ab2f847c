"""One line loops over several tensors, and the ranks are at different ones.

What it means
    No tensor is wrong. A rank skipped an element, has an extra one, or loops in another order. So
    its call meets the others' call for another element.

Example
    ::

        for p in model.parameters():
            if p.grad is not None:      # None on rank 1
                dist.all_reduce(p.grad)

Not to be confused with
    CT403, if the ranks are at the same element and its size differs.

How to fix it
    Loop over the same elements in the same order on every rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from collectrace import words as text
from collectrace.align.causes import arguments, deciders, remedies
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.matching import habit
from collectrace.findings import Side
from collectrace.records import Call
from collectrace.signature import is_asked, numel

How = Literal["order", "round", "usual"]
"""The evidence: the ranks go on with the same elements in another order; one departs from its
earlier iterations; or all have passed both tensors before."""


def find(situation: Situation) -> How | None:
    """Return the evidence that the ranks are at different elements, if any."""
    if not arguments.are_one_call(situation) or not arguments.are_at_one_place(situation):
        return None
    calls = [call for _, call in situation.called]
    if not all(map(is_asked, calls)):
        return None
    if arguments.is_permuted(situation):
        return "order"
    if len({str(numel(call.shape)) for call in calls}) == 1:
        return None  # one tensor that got another shape
    if any(_left_round(situation, *one) for one in situation.called):
        return "round"
    is_one = arguments.differ_in_first_only(calls)
    return "usual" if not is_one and arguments.all_usual(situation) else None


def _left_round(situation: Situation, side: Side, call: Call) -> bool:
    """Whether a side alone passes another element than its earlier iterations did."""
    numbers: dict[object, int] = {}
    past = arguments.history(situation, side, call)
    steps = [numbers.setdefault(one, len(numbers)) for one in past]
    place = habit.expected(steps, len(steps))
    if place is None or place == len(steps) - 1:
        return False
    mine = numbers.get(arguments.kind(call))
    kinds = (arguments.kind(other) for one, other in situation.called if one is not side)
    others = {*map(numbers.get, kinds)}
    return mine is not None and mine != steps[place] and steps[place] in others


_KNOWN: Final[Mapping[How, str]] = {
    "order": "From here on the ranks pass the same elements in another order, as a set gives "
    "them (PYTHONHASHSEED).",
    "round": "Until now every rank passed both in one order: {who} skipped one here, has one more, "
    "or takes them in another order.",
    "usual": "Every rank has passed both at this line before.",
}


def words(situation: Situation, found: How) -> Words:
    """Return the words for ranks that are at different elements."""
    show = {"reduce_op_mismatch": arguments.op, "root_mismatch": arguments.root}
    led = [remedies.fix(situation, one) for one in arguments.deciding(situation)
           if deciders.form(one) in ("condition", "handler")]  # fmt: skip
    left = [one[0] for one in situation.called if _left_round(situation, *one)]
    who = text.ranks(left[0].ranks) if len(left) == 1 else "a rank"
    same = (
        "Go through the same elements in the same order on every rank: sort a set, or a dict that "
        "each rank fills by itself."
    )
    fewer = (
        "Let a rank that has nothing for an element take part with zeros. If the number of "
        "elements differs, agree on it first, or join them into one tensor (torch.cat)."
    )
    return Words(
        arguments.headline(situation, show.get(situation.kind, text.tensors)),
        (
            _KNOWN[found].format(who=who),
            f"So they passed different elements to {arguments.place(situation).rstrip(',')}.",
            *arguments.why(situation),
        ),
        (same,) if found == "order" else (fewer, *led[:1], same) if led else (same, fewer),
    )
