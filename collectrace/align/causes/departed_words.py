"""A departure from what a rank usually does, in words that several causes share."""

from __future__ import annotations

from collectrace import words
from collectrace.align.causes import channel_counts, deciders, phrases, wait_cycle
from collectrace.align.causes.departed import Departed
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.judging.departures import What
from collectrace.align.reading import chains
from collectrace.findings import Decision


def told(situation: Situation, found: Departed) -> Words:
    """Return the words for a departure after which ranks wait for each other."""
    cycle = situation.candidate.cycle
    headline = _did(situation, found)
    if situation.is_tie:
        who = words.ranges({*(edge.waiting.rank for edge in cycle), *found.ranks})
        headline = f"ranks {who} disagree: {headline}"
    first = decider(situation)
    why = [_usually(situation, found)]
    if first is not None:
        why += deciders.reasons(situation, [first, *deciders.rest(situation, first)])
    if situation.is_tie:
        why.append("The logs do not show which rank is wrong.")
    channels = (edge.waiting.channel for edge in cycle)
    counts = {channel_counts.of_channel(situation.case, one) for one in channels if one is not None}
    why += [
        _others(situation, found), wait_cycle.waits(situation), *sorted(counts),
        *(channel_counts.other_end(situation.case, edge) for edge in cycle),
    ]  # fmt: skip
    said = [one for one in why if one]
    return Words(headline, tuple(said[:3]), fixes(situation, found, first), tuple(said[3:]))


def decider(situation: Situation) -> Decision | None:
    """Return the statement that decided; None: all ranks agree on those that are known."""
    ranked = deciders.ranked(situation)
    return next((one for one in ranked if deciders.origin(one) != "agreed"), None) or next(
        (one for one in ranked if situation.pair and situation.pair.is_of_one_rank), None
    )


def call(situation: Situation, found: Departed) -> str:
    """Return ``send to rank 1 (a.py:3)``, at the line that tells it from the usual call."""
    case, rank = situation.case, found.ranks[0]
    site = found.call.site
    if found.what is not What.SKIPPED and found.usual is not None:
        stacks = [case.stack(rank, one) for one in (found.call, found.usual)]
        depth = phrases.apart(stacks)
        site = chains.site(stacks[0][depth]) if depth else site
    return wait_cycle.of_group(case, found.call, site)


def _did(situation: Situation, found: Departed) -> str:
    who, made = words.ranks(found.ranks), call(situation, found)
    edges = [e for e in situation.candidate.cycle if e.target[0] in found.ranks]
    waits = sorted({edge.waiting.rank for edge in edges})
    usual = wait_cycle.of_group(situation.case, found.usual) if found.usual is not None else ""
    match found.what:
        case What.SKIPPED:
            verb = words.verb(waits, "waits", "wait")
            more = f" and {words.counted(found.count - 1, 'more call')}" if found.count > 1 else ""
            rest = f"; {words.ranks(waits)} {verb}" if waits else ""
            return f"{who} skipped {made}{more}{rest}"
        case What.SWAPPED:
            return f"{who} called {made} before {usual}"
        case What.OTHER_CALL if found.usual is not None:
            return f"{who} called {made} instead of {usual}"
        case What.ENDED:
            return f"{who} finished without {made}"
    if found.count > 1:
        return f"{who} made {found.count} extra calls from {made} on"
    others = f", {words.ranks(found.others)} did not" if found.others else ""
    return f"{who} called {made}{others}" if others else f"{who} made an extra call, {made}"


def _usually(situation: Situation, found: Departed) -> str:
    """Return what a rank did in the iterations before; empty: it is not known."""
    who = words.ranks(found.ranks)
    if found.served is not None:
        usual, now = found.served
        verb = "sent" if found.call.op == "send" and usual > now else "received"
        return (
            f"In every iteration before, {usual} messages to or from changing ranks were {verb}; in "
            f"this one {now}."
        )
    if found.times is not None:
        now, usual = found.times
        rounds = f"in each of the {found.rounds} iterations before" if found.rounds else "usually"
        return f"{words.upper(who)} made {now} {found.call.op} calls there, {usual} {rounds}."
    if found.usual is None or not found.rounds:
        return ""
    return (
        f"In every iteration before ({words.counted(found.rounds, 'iteration')}), {who} called "
        f"{phrases.call(found.usual)} there."
    )


def _others(situation: Situation, found: Departed) -> str:
    """Return what other ranks did, a sentence; empty: it is not known."""
    who = words.ranks(found.ranks)
    if situation.is_tie:
        return ""
    if not found.others:
        return f"The others kept their usual pattern; {who} alone did not." if found.rounds else ""
    others = words.upper(words.ranks(found.others))
    if found.what is What.SKIPPED:
        return f"{others} made that call; {who} alone did not."
    if found.what is What.EXTRA:
        return f"{others} did not call it; no rank had called it there before."
    return ""


def fixes(situation: Situation, found: Departed, first: Decision | None) -> tuple[str, ...]:
    """Return how to let all ranks make the same calls again."""
    own = _make_it(situation, found)
    if found.served is not None:
        return (
            "Let one rank decide who takes part in an iteration and broadcast the list. If each "
            "rank draws the list, use the same seed and a generator from which nothing else draws.",
        )
    if first is None:
        return (own,)
    said, form = deciders.quoted(first), deciders.form(first)
    is_message = found.call.peer is not None
    best = deciders.fixes(situation, first)[:2]
    if form == "condition" and is_message:
        best = (
            f"Let both ends of the message decide alike at {said}: decide together (all_reduce of "
            "the flag), or send the decision first.",
        )
    elif form == "condition" and found.rounds and deciders.origin(first) == "rank":
        # It let the rank make the same calls as the others before, so it is not the rank alone.
        best = (
            f"Decide together before {said}: all_reduce the condition with MIN or MAX, then let "
            "every rank take the same branch.",
        )
    elif form == "loop" and is_message:
        best = (
            f"{best[0]} If a batch is cut into microbatches, bring every batch to the same number "
            "of them by cutting or padding the last one, or send the number first.",
        )
    return (*best, f"Or {words.lower(own)}")[:3]


def _make_it(situation: Situation, found: Departed) -> str:
    who, made = words.ranks(found.ranks), call(situation, found)
    if found.count > 1:
        made += f" and {words.counted(found.count - 1, 'more call')}"
    if found.what is What.SKIPPED and found.call.op == "send" and (peers := _peers(situation, found)):
        return (
            f"Let {who} send something to each of {words.ranks(peers)} in every iteration, or let "
            "them make the recv only if it does: broadcast the list first."
        )
    if found.what is What.SKIPPED:
        return (
            f"Let {who} make {made} in every iteration, with zeros or an empty tensor if it has "
            "nothing to send, or agree first to leave it out."
        )
    usual = wait_cycle.of_group(situation.case, found.usual) if found.usual is not None else ""
    if found.what is What.SWAPPED or (found.what is What.OTHER_CALL and found.call.peer is None):
        return f"Keep one order: let {who} call {usual} before {made}, as the others expect."
    if found.call.peer is not None and found.call.peer >= 0:
        end = "send" if found.call.op == "recv" else "recv"
        return (
            f"Make {made} together with its {end} on rank {found.call.peer}, from a line that every "
            "rank with a part in it reaches, or make neither."
        )
    return f"Make {made} on every rank at the same point, or on no rank."


def _peers(situation: Situation, found: Departed) -> set[int]:
    """Return to whom a rank sends from the line of a call, if those are several."""
    log = situation.case.log(found.ranks[0])
    peers = {
        channel.destination
        for channel, count in (log.last_channel_seq.items() if log is not None else ())
        if log is not None
        and channel.source == log.rank
        and (one := log.channel_call(channel, count)) is not None
        and one.site == found.call.site
    }
    return peers if len(peers) > 1 and found.call.site is not None else set()
