"""A rank returned before a call that the others made, and raised an exception later.

What it means
    On this rank, the function in which the others wait had already returned. So the rank skipped
    the call. The exception that ended it came later, and may be a consequence.

Example
    ::

        def exchange(tokens):
            if not tokens:
                return tokens       # rank 1 skips the exchange
            return all_to_all(tokens)

        route(exchange(tokens))     # and raises here: no tokens

Not to be confused with
    CT302, if the exception itself kept the rank from the call.

How to fix it
    Make the call on every rank, with an empty tensor if there is nothing to send.
"""

from __future__ import annotations

from typing import NamedTuple

from collectrace import words as text
from collectrace.align.causes import ct302_absent_rank as absent_rank
from collectrace.align.causes import deciders, phrases, waited_for
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.code.files import Frame, Function
from collectrace.align.ranks.standing import Standing
from collectrace.align.reading import chains
from collectrace.findings import Decision


class Early(NamedTuple):
    """The ranks that raised later, and the statement by which they returned."""

    raised: tuple[Standing, ...]
    decision: Decision


def find(situation: Situation) -> Early | None:
    """Return ranks that returned early: they left a function of the awaited call by a statement."""
    those = absent_rank.raised(situation)
    if not those or not situation.called:
        return None
    stack = situation.called[0][0].stack or ()
    waits_in = {chains.scope(frame) for frame in stack}
    left = waits_in - _raised_in(situation, those[0])
    for one in deciders.ranked(situation):
        if (chains.file(one.site), one.function) in left and deciders.form(one) == "condition":
            return Early(those, one)
    return None


def _raised_in(situation: Situation, one: Standing) -> set[tuple[str, str]]:
    end, files = one.exit, situation.case.program.files
    found = set()
    for site in (end.site, *end.through) if end is not None else ():
        function = files.function(one.rank, Frame.parse(f"{site} "))
        if isinstance(function, Function):
            found.add((chains.file(f"{site} "), function.qualified))
    return found


def words(situation: Situation, found: Early) -> Words:
    """Return the words for ranks that returned early."""
    who, call = text.ranks(one.rank for one in found.raised), waited_for.call(situation)
    said = deciders.quoted(found.decision)
    return Words(
        phrases.fitting(f"{who} skipped {call}: it returned early", f"{who} skipped {call}"),
        (
            *deciders.reasons(situation, [found.decision])[:1],
            f"Later, and only as a consequence, {text.lower(absent_rank.each(found.raised))}.",
        ),
        (
            f"Make {call} on every rank: let no rank return before it at {said}. A rank that has "
            "nothing to send takes part with an empty tensor.",
            f"Then see whether the exception{absent_rank.line(found.raised[0])} still occurs.",
        ),
    )
