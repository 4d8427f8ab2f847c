"""A departure from what a rank usually does, in words that several causes share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from collectrace import words
from collectrace.align.causes import channel_counts, deciders, phrases, wait_cycle
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.judging.departures import Against, Departure, What
from collectrace.findings import Decision
from collectrace.records import Call

_MOST: Final = 3
"""Sentences of a reason."""


def told(situation: Situation, found: Departure) -> Words:
    """Return the words for a departure after which ranks wait for each other."""
    cycle = situation.candidate.cycle
    headline = _did(situation, found)
    if situation.is_tie:
        who = words.ranks({*(edge.waiting.rank for edge in cycle), *found.ranks})
        headline = f"{who} disagree: {headline}"
    first = next(iter(deciders.ranked(situation)), None)
    why = [_usually(found)]
    if first is not None:
        why += deciders.reasons(situation, [first, *deciders.rest(situation, first)])
    if situation.is_tie:
        why.append("The logs do not show which rank is wrong.")
    channels = (edge.waiting.channel for edge in cycle)
    counts = {channel_counts.of_channel(situation.case, one) for one in channels if one is not None}
    more = [
        _others(situation, found), wait_cycle.waits(situation), *sorted(counts),
        *(channel_counts.other_end(situation.case, edge) for edge in cycle),
    ]  # fmt: skip
    why = [one for one in (*why, *more) if one]
    return Words(headline, tuple(why[:_MOST]), fixes(situation, found, first), tuple(why[_MOST:]))


def calls(situation: Situation, made: Sequence[Call]) -> str:
    """Return ``send to rank 1 (a.py:3) and 2 more calls``."""
    first = wait_cycle.of_group(situation.case, made[0])
    more = len(made) - 1
    return f"{first} and {words.counted(more, 'more call')}" if more else first


def _did(situation: Situation, found: Departure) -> str:
    who, made = words.ranks(found.ranks), calls(situation, found.calls)
    edges = [e for e in situation.candidate.cycle if e.target[0] in found.ranks]
    waits = sorted({edge.waiting.rank for edge in edges})
    match found.what:
        case What.SKIPPED:
            verb = words.verb(waits, "waits", "wait")
            return f"{who} skipped {made}" + (f"; {words.ranks(waits)} {verb}" if waits else "")
        case What.SWAPPED:
            first, second = (wait_cycle.of_group(situation.case, one) for one in found.calls[:2])
            return f"{who} called {first} before {second}, {words.ranks(found.others)} after it"
        case What.ENDED:
            return f"{who} finished without {made}"
    if len(found.calls) > 1:
        return f"{who} made {len(found.calls)} extra calls from {calls(situation, found.calls[:1])} on"
    if found.against is Against.OWN and found.expected:
        return f"{who} called {made} instead of {calls(situation, found.expected)}"
    others = f", {words.ranks(found.others)} did not" if found.others else ""
    return f"{who} called {made}{others}"


def _usually(found: Departure) -> str:
    """Return what a rank did in the iterations before; empty: it is not known."""
    if found.against is not Against.OWN or found.alike < 2 or not found.expected:
        return ""
    call = phrases.call(found.expected[0])
    return (
        f"In every iteration before ({found.alike:,} times), {words.ranks(found.ranks)} called "
        f"{call} there."
    )


def _others(situation: Situation, found: Departure) -> str:
    """Return what other ranks did, a sentence; empty: it is not known."""
    if not found.others or situation.is_tie:
        return ""
    others = words.upper(words.ranks(found.others))
    if found.what is What.SKIPPED:
        return f"{others} made that call; {words.ranks(found.ranks)} alone did not."
    if found.what is What.EXTRA:
        return f"{others} did not call it; no rank had called it there before."
    return ""


def fixes(
    situation: Situation, found: Departure, first: Decision | None
) -> tuple[str, ...]:
    """Return how to let all ranks make the same calls again."""
    own = _make_it(situation, found)
    if first is None:
        return (own,)
    said, form = deciders.quoted(first), deciders.form(first)
    is_message = any(one.peer is not None for one in found.calls)
    if form == "condition" and is_message:
        best = (
            f"Let both ends of the message decide alike at {said}: decide together (all_reduce of "
            "the flag), or send the decision first.",
        )
    elif form == "condition" and found.against is Against.OWN:
        # It let the rank make the same calls as the others before, so it is none on the rank.
        best = (
            f"Decide together before {words.site(first.site)}: all_reduce the condition with MIN "
            "or MAX, then let every rank take the same branch.",
        )
    else:
        best = deciders.fixes(situation, first)[:2]
    if form == "loop" and is_message:
        best = (
            f"{best[0]} If a batch is cut into microbatches, bring every batch to the same number "
            "of them by cutting or padding the last one.",
        )
    return (*best, f"Or {words.lower(own)}")[:3]


def _make_it(situation: Situation, found: Departure) -> str:
    who, first = words.ranks(found.ranks), found.calls[0]
    made = calls(situation, found.calls)
    if found.what is What.SKIPPED and first.op == "send" and (peers := _peers(situation, found)):
        return (
            f"Let {who} send something to each of {words.ranks(peers)} in every iteration, also if "
            "it has nothing for one, or broadcast the list of those who get a message."
        )
    if found.what is What.SKIPPED:
        return (
            f"Let {who} make {made} in every iteration, with zeros or an empty tensor if it has "
            "nothing to send, or agree first to leave it out."
        )
    if first.peer is not None and first.peer >= 0:
        end = "send" if first.op == "recv" else "recv"
        return f"Make {made} together with its {end} on rank {first.peer}, or make neither."
    return f"Make {made} on every rank at the same point, or on no rank."


def _peers(situation: Situation, found: Departure) -> set[int]:
    """Return to whom a rank sends from the line of a call, if those are several."""
    log, call = situation.case.log(found.ranks[0]), found.calls[0]
    if log is None or call.site is None:
        return set()
    peers = {
        channel.destination
        for channel, count in log.last_channel_seq.items()
        if channel.source == log.rank
        and (one := log.channel_call(channel, count)) is not None
        and one.site == call.site
    }
    return peers if len(peers) > 1 else set()
