"""What to change about a statement that decided: it names what the statement tests."""

from __future__ import annotations

from typing import Final

from collectrace import words
from collectrace.align.causes import collectives, deciders, phrases, structure
from collectrace.align.causes.deciders import Form, form, origin, quoted
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.findings import Decision, DependsOn

_LONGEST: Final = 50
"""Characters of code that is named in a sentence."""


def explained(situation: Situation, found: Decision) -> Words:
    """Return the words for a statement that decided."""
    return Words(
        collectives.headline(situation),
        deciders.reasons(situation, [found, *deciders.rest(situation, found)]),
        fixes(situation, found),
    )


def fixes(situation: Situation, chosen: Decision) -> tuple[str, ...]:
    """Return what to change about a statement that decided, and about others that can have."""
    others = deciders.rest(situation, chosen)[: deciders.MOST - 1]
    first = fix(situation, chosen)
    if origin(chosen) == "root" and form(chosen) in ("condition", "loop"):
        first = (
            f"Decide together before {quoted(chosen)}: use all_reduce instead of reduce (or "
            "all_gather instead of gather), or broadcast what the root decided."
        )
    more = [(one, fix(situation, one)) for one in others if form(one) != form(chosen)]
    return (
        first,
        *(f"If {quoted(o)} decided: {words.lower(said)}" for o, said in more if said != first),
    )


def fix(situation: Situation, decision: Decision) -> str:
    """Return what to change about a statement."""
    said, kind, on = quoted(decision), form(decision), origin(decision)
    if kind in ("condition", "loop", "value") and on == "order":
        return f"Use the same order on every rank: sort what {said} goes through."
    if kind == "condition" and deciders.is_rank_test(decision):
        return _of_rank(situation, decision)
    if kind == "condition" and on in _ONE_DECIDES:
        return (
            f"Let one rank {_ONE_DECIDES[on]} and broadcast the result before {said}, so that "
            "every rank takes the same branch."
        )
    is_break = structure.around(situation, decision).jump == "break"
    then = "leave the loop in the same iteration" if is_break else "take the same branch"
    return _FIXES[kind].format(said, then=then)


_FIXES: Final[dict[Form, str]] = {
    "condition": "Decide together before {}: all_reduce the condition with MIN (true on all ranks) "
    "or MAX (true on any), then let every rank {then}.",
    "loop": "Give the loop {} the same number of iterations on every rank: agree on the length "
    "first (all_reduce with MIN).",
    "handler": "Share an error flag with all ranks behind {} (all_reduce with MAX). Then let every "
    "rank make the same calls.",
    "dispatch": "Make what {} calls the same on every rank: decide together which function it is.",
    "value": "Compute {} in the same way on every rank, or broadcast the result.",
    "items": "Go through the same items in the same order on every rank in {}, for example sorted.",
}

_ONE_DECIDES: Final[dict[DependsOn, str]] = {
    "clock": "read the clock", "random": "draw the number", "files": "look at the file system",
    "environment": "read the environment",
}  # fmt: skip


def _of_rank(situation: Situation, decision: Decision) -> str:
    said, found = quoted(decision), structure.around(situation, decision)
    if found.branches > 1:
        return f"Make the same calls in the same order in all branches of {said}, on every rank."
    if found.inside:
        call = phrases.call(found.inside[0][1])
        return f"Move {call} out of {said}: make the call on every rank, or on none."
    if found.jump is not None and found.outside:
        return (
            f"Make the calls behind {said} on every rank: move them before it, or make them on "
            f"none. If only some ranks may `{found.jump}` there, decide together first."
        )
    return f"Let every rank take the same branch of {said}."
