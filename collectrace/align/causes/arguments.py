"""A call that the ranks made with different arguments: what they passed, now and before."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Final

from collectrace import words
from collectrace.align.causes import deciders, phrases, remedies, structure
from collectrace.align.causes.situation import Situation
from collectrace.align.matching import habit
from collectrace.align.matching.comparison import Divergence
from collectrace.align.reading import chains
from collectrace.findings import Decision, Side
from collectrace.ops import canonical_op
from collectrace.records import Call
from collectrace.signature import is_asked, is_user

_LOOK_BACK: Final = 400
"""Calls before the first difference that are examined."""

_LONGEST: Final = 34
"""Characters of an argument in a headline."""

_MOST: Final = 3
"""Sides or statements that a sentence lists."""

_TELLING: Final = frozenset({"rank", "state", "chosen", "random", "clock", "files", "environment"})
"""Origins that explain alone why a value differs."""

Place = tuple[str, tuple[str, ...]]
Kind = Hashable
Show = Callable[[Call], str]


def kind(call: Call) -> Kind:
    """Return all arguments of a call that must match those of the others."""
    return str((call.dtype, call.shape, call.out_shape, call.reduce_op, call.root, call.splits))


def are_one_call(situation: Situation) -> bool:
    """Whether all sides made the same call, so that only its arguments differ.

    They made it from the same lines, or from lines whose calls have met before. Arguments that a
    framework passes to its own calls follow from the model, and do not count.
    """
    made = situation.called
    if len(made) < 2 or not all(is_asked(call) for _, call in made):
        return False
    is_row = isinstance(situation.candidate.source, Divergence)
    if not is_row or len({(canonical_op(call.op), call.role) for _, call in made}) > 1:
        return False
    return are_at_one_place(situation) or _have_met(situation)


def are_in_one_part(situation: Situation) -> bool:
    """Whether all sides are in the same part of a framework, at the same lines."""
    made = situation.called
    parts = {(call.role, call.part, call.op, call.site, side.stack) for side, call in made}
    return len(made) > 1 and len(parts) == 1 and not is_user(made[0][1])


def are_at_one_place(situation: Situation) -> bool:
    """Whether all sides made their call from the same lines."""
    return len({_place(situation, *one) for one in situation.called}) == 1


def _place(situation: Situation, side: Side, call: Call) -> Place:
    stack = side.stack or situation.case.frames_or_line(side.ranks[0], call)
    return canonical_op(call.op), tuple(stack)


def _have_met(situation: Situation) -> bool:
    case, candidate = situation.case, situation.candidate
    ranks = [side.ranks[0] for side, _ in situation.called]
    here = [_place(situation, *one)[1] for one in situation.called]
    return any(
        [stack or (call.site or "",) for call, stack in row] == here
        for row in case.met(ranks, candidate.stream, candidate.seq)
    )


def history(situation: Situation, side: Side, call: Call) -> list[Kind]:
    """Return what a side's first rank passed earlier at the place of its call."""
    return _passed(situation, side, call, situation.candidate.seq or 0)


def following(situation: Situation, side: Side, call: Call) -> list[Kind]:
    """Return what a side's first rank passes at that place in its call and later ones."""
    return _passed(situation, side, call, (situation.candidate.seq or 0) + _LOOK_BACK)


def _passed(situation: Situation, side: Side, call: Call, end: int) -> list[Kind]:
    """Return what a side's first rank passed before call ``end`` at the place of its call."""
    here = _place(situation, side, call)
    # A function with several collectives is identified by the dtype of this one.
    dtype = call.dtype if call.api not in (None, call.op) else None
    return [
        kind(one)
        for one in situation.case.before(side.ranks[0], situation.candidate.stream, end, _LOOK_BACK)
        if one is not None
        and (canonical_op(one.op), situation.case.frames_or_line(side.ranks[0], one)) == here
        and dtype in (None, one.dtype)
    ]


def all_usual(situation: Situation) -> bool:
    """Whether every rank has already passed what each side passes now at this place."""
    kinds = {kind(call) for _, call in situation.called}
    return all(kinds <= {*history(situation, *one)} for one in situation.called)


def is_permuted(situation: Situation) -> bool:
    """Whether the sides pass the same arguments from here on, in another order."""
    made = [following(situation, *one) for one in situation.called]
    shortest = min(map(len, made), default=0)
    return any(
        len({frozenset(Counter(one[:n]).items()) for one in made}) == 1
        for n in range(2, shortest + 1)
    )


def op(call: Call) -> str:
    """Return the reduction as in a headline: ``SUM``."""
    return call.reduce_op or "no op"


def root(call: Call) -> str:
    """Return the root as in a headline: ``src 2``."""
    return f"{words.root(call)} {call.root}"


# -- sentences -------------------------------------------------------------------------------


def headline(situation: Situation, show: Show) -> str:
    """Return which ranks passed what, suspects first."""
    made = situation.called
    call = made[0][1]
    parts = [(side.ranks, words.brief(show(one), _LONGEST)) for side, one in made]
    name, at = phrases.call(call), f"{words.name(call)}{phrases.line(call.site)}"
    if not situation.suspects:
        who = words.listed([words.ranks(ranks) for ranks, _ in parts])
        given = phrases.on_each((what, ranks) for ranks, what in parts)
        return phrases.fitting(
            f"ranks disagree: {name} with {given}", f"{who} disagree: {at}", f"disagree: {at}"
        )
    (ranks, what), *others = parts
    did = phrases.verb_of(ranks, call)
    rest = ", ".join(f"{words.ranks(those)} with {given}" for those, given in others)
    return phrases.fitting(
        f"{words.ranks(ranks)} {did} {name} with {what}, {rest}",
        f"{words.ranks(ranks)} {did} {at} with {what}",
        f"{words.ranks(ranks)} {did} {at}",
    )


def place(situation: Situation) -> str:
    """Return the call, and its line if all ranks made it there."""
    side, call = situation.called[0]
    name = words.name(call) if is_user(call) else f"{words.issuer(call)} ({call.op})"
    stack = side.stack or ()
    return (
        f"{name} at {phrases.within(stack)}," if stack[1:] and are_at_one_place(situation) else name
    )


def listed(situation: Situation, show: Show) -> str:
    """Return ``float32[4] on ranks 0-1 and float32[6] on rank 2``."""
    return words.listed([f"{show(call)} on {words.ranks(side.ranks)}"
                         for side, call in situation.called])  # fmt: skip


def before(situation: Situation, show: Show) -> tuple[str, ...]:
    """Return a sentence on what every rank had passed before; empty if they differed."""
    past = [history(situation, *one) for one in situation.called]
    usual = {one for those in past for one in those}
    times = min(map(len, past))
    if len(usual) != 1 or times < habit.ENOUGH:
        return ()
    other = [side for side, call in situation.called if kind(call) not in usual]
    same = [call for _, call in situation.called if kind(call) in usual]
    if not other or not same:
        return ()
    who = words.ranks(rank for side in other for rank in side.ranks)
    return (
        f"In the {times:,} calls before from that line it was {show(same[0])} on every rank: {who} "
        f"{'is' if who.startswith('rank ') else 'are'} the first to pass anything else.",
    )


def silent(situation: Situation) -> str:
    """Return since which call results are wrong, if no backend notices."""
    return (
        "No backend checks this, so the call itself did not fail: the results are wrong since call "
        f"{situation.candidate.seq}."
    )


def is_undecided(situation: Situation) -> bool:
    """Return whether the decisions found only led to lines with calls that match by design."""
    pair = situation.pair
    is_led = pair is not None and not (are_at_one_place(situation) or pair.is_of_one_rank)
    return is_led and not are_values(situation)


def are_values(situation: Situation) -> bool:
    """Whether the decisions are about the arguments of one call, such as one end of a message."""
    return all(side.did == "value" for one in situation.decisions for side in one.sides)


def deciding(situation: Situation) -> list[Decision]:
    """Return the statements that can have decided what was passed, most informative first.

    If the calls are from different lines, the statement that led to these lines did not decide it.
    """
    is_known = situation.pair is not None and all(is_asked(call) for _, call in situation.called)
    if not is_known or not situation.decisions or is_undecided(situation):
        return []
    stack = situation.called[0][0].stack or ()
    found = [one for one in deciders.ranked(situation) if not structure.is_behind(one, stack)]
    certain = [one for one in found if one.is_certain]
    if certain:
        return certain[:1]
    found = [one for one in found if deciders.origin(one) != "agreed" or _varies(situation, one)]
    if are_at_one_place(situation):
        # They made equal calls before, and so as many iterations.
        found = [
            one
            for one in found
            if not one.text.startswith("for ")
            or (is_over_names(one) and structure.holds_call(situation, one, stack))
        ]
        if situation.kind == "dtype_mismatch":  # what decides values does not decide a dtype
            found.sort(key=lambda one: not chooses(one))
    if unordered := [one for one in found if goes_through_set(one)]:
        return unordered[:1]
    if found and deciders.form(found[0]) == "value":
        # A value that is computed from another one is behind it.
        name = found[0].function, deciders.origin(found[0])
        values = (one for one in found if deciders.form(one) == "value")
        those = (one for one in values if (one.function, deciders.origin(one)) == name)
        first = min(those, key=lambda one: chains.split(one.site)[1])
        found = [first, *(one for one in found if one is not first)]
    if found and deciders.origin(found[0]) in _TELLING:
        return found[:1]
    return found[:_MOST]


def chooses(decision: Decision) -> bool:
    """Whether a statement chose between two expressions for a value."""
    is_value = all(side.did == "value" for side in decision.sides)
    return is_value and _CHOICE.search(decision.text) is not None


_CHOICE: Final = re.compile(r"^(el)?if | if .+ else ")


def _varies(situation: Situation, decision: Decision) -> bool:
    """Whether a value that ranks agree on can differ between two iterations of one rank."""
    is_own = situation.pair is not None and situation.pair.is_of_one_rank
    return is_own and not decision.text.startswith("for ")


def sure(situation: Situation) -> Decision | None:
    """Return the one statement that computed the argument; None if it is not certain."""
    found = deciding(situation)
    is_one = len(found) == 1 and found[0].is_certain
    return found[0] if is_one and deciders.form(found[0]) == "value" else None


def computed_first(situation: Situation, fixes: Sequence[str]) -> list[str]:
    """Return fixes with one for the statement that computed the argument first, if it is sure."""
    own = computed(situation)
    return [*own, *(f"Or {words.lower(one)}" for one in fixes[:1])] if own else [*fixes]


def computed(situation: Situation) -> tuple[str, ...]:
    """Return the fix for the statement that computed the argument; empty if it is not sure."""
    found = sure(situation)
    said = remedies.computed(found) if found is not None else ""
    return (said,) if said else ()


def of_model(situation: Situation) -> Decision | None:
    """Return the loop over a model's parts that differ, if it is known what they come from.

    None if a condition may have left out some of them.
    """
    found = deciding(situation)
    for one in found if all(deciders.form(d) != "condition" for d in found) else ():
        known = one.comes_from is not None and deciders.origin(one) not in ("unknown", "agreed")
        if known and structure.OF_MODEL.search(one.text):
            return one
    return None


def why(situation: Situation) -> tuple[str, ...]:
    """Return one sentence on what decided it; empty if that is not known."""
    found = deciding(situation)
    if not found:
        return ()
    if (model := of_model(situation)) is not None:
        reason = deciders.OF_SOURCES[deciders.origin(model)]
        return (f"It may come from {deciders.quoted_origin(model)}, which {reason}.",)
    loops = [one for one in found if is_over_names(one)][:1]
    sites = {call.site for _, call in situation.called}
    if loops:
        order = f"at different items of {deciders.quoted(loops[0])}, in another order"
        others = [one for one in found if one not in loops and one.site not in sites]
        if goes_through_set(loops[0]):
            said = deciders.quoted(loops[0])
            return (f"The ranks are at different items: {said} {deciders.ORIGINS['order']}.",)
        if not others:
            origin, said = deciders.origin(loops[0]), deciders.quoted_origin(loops[0])
            if origin in ("unknown", "agreed") or not said:
                return (f"The ranks can be {order}.",)
            return (f"The ranks can be {order}, as {said} {deciders.OF_SOURCES[origin]}.",)
        return (f"It may come from {deciders.quoted(others[0])}, or the ranks are {order}.",)
    if deciders.form(found[0]) not in ("value", "items"):
        return (deciders.what_it_did(situation, found[0]),)
    origin = deciders.origin(found[0])
    reason = deciders.ORIGINS[origin] if origin != "agreed" else ""
    clause = f", which {reason}" if reason else ""
    source = deciders.quoted_origin(found[0])
    if reason and source and deciders.form(found[0]) == "value":
        clause += f": {source}"
    comes = "comes" if len(found) == 1 and found[0].is_certain else "may come"
    if reason and source and sites == {found[0].site}:
        # The call itself is known: what it passes comes from elsewhere.
        return (f"It {comes} from {source}, which {deciders.OF_SOURCES[origin]}.",)
    is_test = found[0].text.startswith(("if ", "elif "))
    what = f"what {deciders.quoted(found[0])} sets" if is_test else deciders.quoted(found[0])
    return (f"It {comes} from {what}{clause}.",)


def fixes(situation: Situation) -> tuple[str, ...]:
    """Return fixes for ranks that are at different iterations."""
    found = deciding(situation)
    led = [one for one in found if deciders.form(one) in ("condition", "handler")]
    loops = [one for one in found if is_over_names(one)]
    said = [same_items(situation, one) for one in led[:1]]
    said += [
        f"use one order on every rank in {deciders.quoted(one)}, as sorted(...) gives."
        for one in loops[:1]
    ]
    if loops and goes_through_set(loops[0]):
        return (words.upper(said[-1]),)
    return tuple(f"If the ranks are at different items: {one}" for one in said[:1])


def same_items(situation: Situation, decision: Decision) -> str:
    """Return how to let a condition leave out the same items on every rank."""
    together = words.lower(remedies.fix(situation, decision))
    if deciders.form(decision) != "condition":
        return together
    return f"make {remedies.tested(decision)} equal on all ranks. Or {together}"


_ORDERED: Final = re.compile(
    r"for (?!.* if ).+? in ([\[(\"']|(range|enumerate|reversed|sorted|zip|DataLoader)\()"
)
"""A loop over items with the same order on all ranks, and usually the same length."""


def goes_through_set(decision: Decision) -> bool:
    """Whether a loop goes through a set, which has another order in each process."""
    return is_over_names(decision) and deciders.origin(decision) == "order"


def is_over_names(decision: Decision) -> bool:
    """Whether a ``for`` loop has items that may differ between ranks in order or number."""
    return decision.text.startswith("for ") and not _ORDERED.match(decision.text)


def differ_in_first_only(calls: Sequence[Call]) -> bool:
    """Whether tensors differ only in their first dimension."""
    shapes = [call.shape for call in calls]
    if any(not shape or isinstance(shape[0], list) for shape in shapes):
        return False
    return len({tuple(map(str, (shape or [])[1:])) for shape in shapes}) == 1
