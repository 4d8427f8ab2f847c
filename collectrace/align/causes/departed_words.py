"""A departure from what a rank usually does, in words that several causes share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from collectrace import words
from collectrace.align.causes import channel_counts, deciders, phrases, wait_cycle
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.judging.departures import Against, Departure, What
from collectrace.records import Call

_MOST: Final = 3
"""Sentences of a reason."""


def told(situation: Situation, found: Departure) -> Words:
    """Return the words for a departure after which ranks wait for each other."""
    headline = _did(situation, found)
    if not situation.suspects:
        others = {edge.waiting.rank for edge in situation.candidate.cycle}
        who = words.ranks({*others, *found.ranks})
        headline = f"{who} disagree: {headline}"
    first = next(iter(deciders.ranked(situation)), None)
    why = [_usually(found)]
    if first is not None:
        why += deciders.reasons(situation, [first, *deciders.rest(situation, first)])
    if not situation.suspects:
        why.append("The logs do not show which rank is wrong.")
    more = [wait_cycle.waits(situation), *channel_counts.uneven(situation)]
    why = [one for one in (*why, *more) if one]
    return Words(
        headline, tuple(why[:_MOST]), fixes(situation, found), tuple(why[_MOST:])
    )  # fmt: skip


def calls(situation: Situation, made: Sequence[Call]) -> str:
    """Return ``send to rank 1 (a.py:3) and 2 more calls``."""
    first = wait_cycle.of_group(situation.case, made[0])
    more = len(made) - 1
    return f"{first} and {words.counted(more, 'more call')}" if more else first


def _did(situation: Situation, found: Departure) -> str:
    who, made = words.ranks(found.ranks), calls(situation, found.calls)
    waits = {edge.waiting.rank for edge in situation.candidate.cycle} - {*found.ranks}
    match found.what:
        case What.SKIPPED:
            awaited = words.ranks(waits)
            return f"{who} skipped {made}" + (f"; {awaited} waits for it" if waits else "")
        case What.SWAPPED:
            first, second = (wait_cycle.of_group(situation.case, one) for one in found.calls[:2])
            return f"{who} called {first} before {second}, {words.ranks(found.others)} after it"
        case What.ENDED:
            return f"{who} finished without {made}"
        case What.MORE_ITERATIONS:
            return f"{who} called {made}, {words.ranks(found.others)} did not"
    if len(found.calls) > 1:
        return f"{who} made {len(found.calls)} extra calls, first {calls(situation, found.calls[:1])}"
    if found.against is Against.OWN and found.expected:
        return f"{who} called {made} instead of {calls(situation, found.expected)}"
    others = f", {words.ranks(found.others)} did not" if found.others else ""
    return f"{who} called {made}{others}"


def _usually(found: Departure) -> str:
    """Return what the rank did in the iterations before, or the others did; empty: not known."""
    who = words.ranks(found.ranks)
    if found.against is Against.OWN and found.alike > 1 and found.expected:
        call = phrases.call(found.expected[0])
        return f"In the {found.alike:,} iterations before, {who} called {call} there."
    if found.against is Against.OTHERS and found.others and found.what is What.SKIPPED:
        return f"{words.upper(words.ranks(found.others))} made that call."
    if found.against is Against.KIND and found.others:
        return f"{words.upper(words.ranks(found.others))}, in other groups, did not depart."
    return ""


def fixes(situation: Situation, found: Departure) -> tuple[str, ...]:
    """Return how to let all ranks make the same calls again."""
    first = next(iter(deciders.ranked(situation)), None)
    who, made = words.ranks(found.ranks), calls(situation, found.calls)
    own: list[str] = []
    if found.what is What.SKIPPED:
        own.append(
            f"Or let {who} make {made} in every iteration, with zeros or an empty tensor if it has "
            "nothing to give."
        )
    elif found.what is What.EXTRA:
        own.append(f"Or make {made} on every rank at the same point, or on no rank.")
    if first is None:
        return tuple(words.upper(one.removeprefix("Or ")) for one in own)
    is_message = any(one.peer is not None for one in found.calls)
    if is_message and deciders.form(first) == "condition":
        said = deciders.quoted(first)
        agreed = (
            f"Let both ends of the message decide alike at {said}: send the decision first, or "
            "decide together (all_reduce of the flag)."
        )
        return (agreed, *own)
    return (*deciders.fixes(situation, first)[:2], *own)
