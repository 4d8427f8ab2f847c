"""One line loops over several tensors, and the ranks are at different ones.

What it means
    No tensor is wrong. A rank skipped an element, has an extra one, or loops in another order. So
    its call meets the others' call for another element. backward() loops, too: it calls the hooks
    of the parameters that have gradients.

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

import ast
import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Final, Literal

from collectrace import words as text
from collectrace.align.causes import arguments, deciders, phrases, remedies, structure
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.code.graph import called_name
from collectrace.align.matching import habit
from collectrace.align.reading import chains
from collectrace.findings import Decision, Side
from collectrace.records import Call
from collectrace.signature import is_asked, numel

How = Literal["hook", "order", "round", "usual", "filter"]
"""The evidence: backward() made the calls, in hooks of parameters; the ranks go on with the same
elements in another order; one departs from its earlier iterations; all have passed both tensors
before; or a condition in the loop decided, which can only leave out elements."""

_BACKWARD: Final = re.compile(r"\.backward\(")
_REGISTERS: Final = re.compile(r"register_\w*hook")


def find(situation: Situation) -> How | None:
    """Return the evidence that the ranks are at different elements, if any."""
    if not arguments.are_one_call(situation) or not arguments.are_at_one_place(situation):
        return None
    calls = [call for _, call in situation.called]
    if not all(map(is_asked, calls)):
        return None
    if all(_hook(situation, side) for side, _ in situation.called):
        return "hook"
    if arguments.is_permuted(situation):
        return "order"
    if len({str(numel(call.shape)) for call in calls}) == 1:
        return None  # one tensor that got another shape
    if any(_left_round(situation, *one) for one in situation.called):
        return "round"
    is_left_out = _filter(situation) is not None
    if arguments.differ_in_first_only(calls) and not (is_left_out and _of_model(situation)):
        return None
    if arguments.all_usual(situation):
        return "usual"
    return "filter" if is_left_out else None


def _of_model(situation: Situation) -> list[Decision]:
    """Return the loops over parts of a model, which have the same sizes on all ranks."""
    return [d for d in deciders.ranked(situation) if structure.OF_MODEL.search(d.text)]


def _filter(situation: Situation) -> Decision | None:
    """Return the condition that decides for each element of a loop whether it is passed.

    All ranks call from one line. If that is under a condition, or after its ``continue``, the
    condition can only have chosen the iteration. A loop over parts of a model has the same on all
    ranks.
    """
    found, model = deciders.first(situation, "condition"), _of_model(situation)
    if found is None:
        return None
    lines = {found.site, *(call.site for _, call in situation.called)}
    others = [one for one in situation.decisions if one.site not in lines and one not in model]
    if others and not found.is_certain:
        return None
    around = structure.around(situation, found)
    is_one = len(around.inside) == len(situation.called) or around.jump == "continue"
    return found if is_one else None


def _hook(situation: Situation, side: Side) -> tuple[str, str] | None:
    """Return the gradient hook that a line with backward() called, and that line; None: none.

    A function that is nowhere registered may be a forward that is computed again.
    """
    for inner, frame in pairwise(side.stack or ()):
        if _BACKWARD.search(phrases.text(situation.case, frame)):
            is_hook = _is_registered(situation, chains.method(inner))
            return (phrases.function(inner), phrases.line(chains.site(frame))) if is_hook else None
    return None


def _is_registered(situation: Situation, name: str) -> bool:
    """Whether a function is an argument of a call such as ``register_hook``, by its name."""
    return any(
        name in {getattr(one, "attr", None), getattr(one, "id", None)}
        for file in situation.case.program.files.known()
        for call in ast.walk(file.tree)
        if isinstance(call, ast.Call) and _REGISTERS.fullmatch(called_name(call))
        for argument in call.args
        for one in ast.walk(argument)
    )


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
    "hook": "{hook} is a gradient hook: backward(){line} calls it for each parameter that gets a "
    "gradient, in the order in which the gradients are ready.",
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
    headline = arguments.headline(situation, show.get(situation.kind, text.tensors))
    place = arguments.place(situation).rstrip(",")
    if found == "hook":
        hook, line = _hook(situation, situation.called[0][0]) or ("", "")
        return Words(
            headline,
            (
                _KNOWN[found].format(hook=hook, line=line),
                f"So the ranks passed different parameters to {place}: some have no gradient on "
                "every rank, or they are used in another order.",
            ),
            (
                "Make these calls after backward(), for all parameters in one order, with zeros "
                "for a parameter without a gradient.",
                "Let every parameter take part in the loss on every rank, in the same order.",
            ),
        )
    condition = _filter(situation) if found == "filter" else None
    if condition is not None:
        return Words(
            headline,
            (
                f"{deciders.quoted(condition)} decides for each element of the loop whether it is "
                "passed.",
                f"So the ranks passed different elements to {place}.",
            ),
            (text.upper(arguments.same_items(situation, condition)), fewer),
        )
    return Words(
        headline,
        (
            _KNOWN[found].format(who=who),
            f"So they passed different elements to {place}.",
            *arguments.why(situation),
        ),
        (same,) if found == "order" else (fewer, *led[:1], same) if led else (same, fewer),
    )
