"""Words for a departure from a rank's usual calls that several causes share."""

from __future__ import annotations

import re
from typing import Final

from collectrace import words
from collectrace.align.causes import channel_counts, deciders, phrases, remedies, wait_cycle
from collectrace.align.causes.departed import Departed
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.judging.departures import What
from collectrace.align.judging.own_calls import calls_of
from collectrace.align.reading import chains
from collectrace.align.reading.rank_names import RANK
from collectrace.findings import Decision


def describe(situation: Situation, found: Departed) -> Words:
    """Return the words for a departure after which ranks wait for each other."""
    cycle = situation.candidate.cycle
    headline = _did(situation, found)
    if situation.is_tie:
        who = words.ranges({*situation.candidate.ranks, *found.ranks})
        headline = f"ranks {who} disagree: {headline}"
    first = deciding_statement(situation)
    why = [_AUTOGRAD if _is_backward(situation, found) else ""]
    if first is not None and not (why[0] and deciders.form(first) == "dispatch"):
        why += deciders.reasons(situation, [first, *deciders.rest(situation, first)])
    why.append(_usually(found))
    if situation.is_tie:
        why.append("The logs do not show which rank is wrong.")
    channels = (edge.waiting.channel for edge in cycle)
    counts = {channel_counts.of_channel(situation.case, one) for one in channels if one is not None}
    why += [
        _others(situation, found), wait_cycle.waits(situation), *sorted(counts),
        *(channel_counts.other_end(situation.case, edge) for edge in cycle),
    ]  # fmt: skip
    return Words.of(headline, why, fixes(situation, found, first))


def deciding_statement(situation: Situation, *, ended: bool = False) -> Decision | None:
    """Return the statement that decided; None if none is known.

    A condition on the rank alone had the same outcome before, so it comes last unless it is the
    evidence. ``ended``: a rank left for good, so loops come first.
    """
    # A context manager that may suppress an exception explains little.
    ranked = [one for one in deciders.ranked(situation) if not one.is_with]

    is_led = any(row.fact == "led_by_its_rank" for row in situation.candidate.evidence)
    sites = {side.call.site for side, _ in situation.called if side.call is not None}

    def order(one: Decision) -> tuple[bool, ...]:
        is_loop = deciders.form(one) == "loop"
        origin, is_value = deciders.origin(one), deciders.form(one) == "value"
        by_rank = origin == "rank" and not (is_led or is_value)
        says_less = one.site in sites and (origin == "unknown" or not is_value)
        return origin == "agreed", says_less, ended and not is_loop, is_value, by_rank

    return min(ranked, key=order, default=None)


def agree_first(situation: Situation, first: Decision) -> tuple[str, ...]:
    """Return how to make all ranks take the same branch of a condition that names no rank."""
    if deciders.form(first) != "condition" or RANK.search(first.text):
        return remedies.fixes(situation, first)[:1]
    return (remedies.together(situation, first),)


def call(situation: Situation, found: Departed) -> str:
    """Return ``send to rank 1 (a.py:3)``, at the outermost line that is not the usual one."""
    case, rank = situation.case, found.ranks[0]
    if found.what is What.SKIPPED:
        return wait_cycle.with_group(case, found.call)
    stack = case.stack(rank, found.call) if found.call.site is not None else ()
    made = case.stack(rank, found.usual) if found.usual is not None else next(
        (one.stack for one in reversed(calls_of(case, rank)) if one.stack != stack), ()
    )  # fmt: skip
    frame = chains.outermost_apart(stack, made)[0] if stack and made else ""
    return wait_cycle.with_group(case, found.call, chains.site(frame) or None)


def _did(situation: Situation, found: Departed) -> str:
    who, made = words.ranks(found.ranks), call(situation, found)
    edges = [e for e in situation.candidate.cycle if e.target[0] in found.ranks]
    waits = sorted({edge.waiting.rank for edge in edges})
    usual = wait_cycle.with_group(situation.case, found.usual) if found.usual is not None else ""
    match found.what:
        case What.SKIPPED:
            verb = words.verb(waits, "waits", "wait")
            more = f" and {words.counted(found.count - 1, 'more call')}" if found.count > 1 else ""
            rest = f"; {words.ranks(waits)} {verb}" if waits and situation.suspects else ""
            return f"{who} skipped {made}{more}{rest}"
        case What.SWAPPED:
            return f"{who} called {made} before {usual}"
        case What.OTHER_CALL if found.usual is not None:
            return f"{who} called {made} instead of {usual}"
        case What.ENDED:
            return f"{who} finished without {made}"
    if found.count > 1:
        return f"{who} made {found.count} extra calls, first {made}"
    others = f", {words.ranks(found.others)} did not" if found.others else ""
    return f"{who} called {made}{others}" if others else f"{who} made an extra call, {made}"


def _usually(found: Departed) -> str:
    """Return what a rank did in the iterations before; empty if it is not known."""
    who = words.ranks(found.ranks)
    if found.served is not None:
        usual, now = found.served
        hub = _hub(found)
        sends = (found.call.op == "send") is not (found.what is What.EXTRA)
        verb = f"sent {usual} messages to" if sends else f"received {usual} messages from"
        return (
            f"In every iteration before, rank {hub} {verb} changing ranks; in this one "
            f"{'only ' if now < usual else ''}{now}."
        )
    if found.times is not None:
        now, usual = found.times
        rounds = f"in each of the {found.rounds} iterations before" if found.rounds else "usually"
        others = f"; {words.ranks(found.others)} made more" if found.others else ""
        made = words.counted(now, f"{found.call.op} call")
        return f"{words.upper(who)} made {made} there, {usual} {rounds}{others}."
    if found.after is not None:
        return (
            f"Each of the {found.rounds} times before, {who} made this {found.call.op} after "
            f"{phrases.call(found.after)}."
        )
    if found.usual is None or not found.rounds:
        return ""
    if found.in_run:
        return (
            f"One more {phrases.call(found.usual)} is awaited than {who} made: an iteration "
            "skipped it, and the logs do not show which."
        )
    return (
        f"In every iteration before ({words.counted(found.rounds, 'iteration')}), {who} called "
        f"{phrases.call(found.usual)} at this point."
    )


def _others(situation: Situation, found: Departed) -> str:
    """Return a sentence on what other ranks did; empty if it is not known."""
    who = words.ranks(found.ranks)
    if situation.is_tie:
        return ""
    if not found.others:
        kept = f"All other ranks kept their usual pattern; {who} alone did not."
        return kept if found.others_kept else ""
    others = words.upper(words.ranks(found.others))
    if found.what is What.SKIPPED:
        line = _elsewhere(situation, found) or phrases.line(found.call.site)
        return f"{others} made that call{line}; {who} alone did not."
    if found.what is What.EXTRA:
        return f"{others} did not call it; {who} alone did."
    return ""


def _elsewhere(situation: Situation, found: Departed) -> str:
    """Return the line where a rank of another group made such a call."""
    pair = situation.pair
    if pair is None or pair.is_of_one_rank or not isinstance(pair.two.next, tuple):
        return ""
    if pair.two.call != found.call.op or not pair.two.next:
        return ""
    frame = pair.two.next[0]
    site = f"{frame.path}:{frame.line}"
    return phrases.line(site) if site != found.call.site else ""


def fixes(situation: Situation, found: Departed, first: Decision | None) -> tuple[str, ...]:
    """Return how to make all ranks call the same again."""
    own = _make_it(situation, found)
    if found.served is not None:
        return (
            f"Let one rank decide who takes part in an iteration, as rank {_hub(found)}, and "
            "broadcast the list. If each rank draws the list, use the same seed and a "
            "generator from which nothing else draws.",
        )
    if first is None:
        return (own,)
    said, form = deciders.quoted(first), deciders.form(first)
    if _is_backward(situation, found):
        op = "send" if found.call.op == "recv" else "recv"
        return (
            "Let the input of that forward need a gradient in every iteration "
            "(requires_grad_()), or make the exchange outside of autograd.",
            f"Or, if {words.ranks(found.ranks)} is meant to leave it out, let rank "
            f"{found.call.peer} leave out its {op}, too.",
        )
    is_message = found.call.peer is not None
    best = remedies.fixes(situation, first)[:2]
    left_out = found.usual if found.usual is not None else found.call
    if form == "condition" and (is_message or left_out.peer is not None):
        # If the other ranks left it out as well, the other end would still wait.
        best = (
            f"Let both ends of the message decide alike at {said}: decide together "
            "(all_reduce), or let one end decide and send the decision first.",
        )
    elif form == "condition" and found.rounds and deciders.origin(first) == "rank":
        # It had the same outcome in earlier iterations, so it is not the rank alone.
        best = agree_first(situation, first)
    elif form == "loop" and is_message and not _P2P.search(first.text):
        best = (
            f"{best[0]} If a batch is cut into microbatches, bring every batch to the same "
            "number of them by cutting or padding the last one, or send the number first.",
        )
    is_given_up = found.what is What.SKIPPED and found.call.op != "recv" and form == "condition"
    if is_given_up and deciders.origin(first) in _OF_DATA:
        # To take part with zeros keeps what the other ranks have; to leave it out together may not.
        return (own, *(f"Or {words.lower(one)}" for one in best[:1]), *best[1:])
    return (*best, f"Or {words.lower(own)}")


_OF_DATA: Final = frozenset({"data", "length", "received", "state", "chosen", "unknown"})
"""Origins of a condition on what a rank has, which may be nothing."""

_P2P: Final = re.compile(r"\bbatch_isend_irecv\(")
"""A loop over messages that are begun together, and not over parts of a batch."""


def _hub(found: Departed) -> int | None:
    """Return the rank that exchanges messages with changing ranks."""
    return found.call.peer if found.what is What.EXTRA else found.ranks[0]


def _is_backward(situation: Situation, found: Departed) -> bool:
    """Whether a rank skipped a message that autograd makes in a backward()."""
    stack = situation.case.stack(found.ranks[0], found.call) if found.call.site else ()
    is_skipped = found.what is What.SKIPPED and found.call.peer is not None
    return is_skipped and bool(stack) and chains.function(stack[0]).endswith(".backward")


_AUTOGRAD: Final = (
    "autograd runs the backward() of this message only if its input needs a gradient."
)


def _make_it(situation: Situation, found: Departed) -> str:
    who, made = words.ranks(found.ranks), call(situation, found)
    if found.count > 1:
        made += f" and {found.count - 1} more"
    peers = _peers(situation, found)
    if found.what is What.SKIPPED and found.call.op == "send" and peers and situation.suspects:
        return (
            f"Let {who} send something to each of {words.ranks(peers)} in every iteration, or let "
            "them call recv only if it does: broadcast the list first."
        )
    if found.what is What.SKIPPED:
        is_answer = found.after is not None and found.after.op == "recv"
        when = "for each message that it gets" if is_answer else "in every iteration"
        first = "agree first to leave it out"
        if found.call.peer is not None:
            first = f"tell rank {found.call.peer} first how many messages there are"
        if situation.is_tie and peers:
            first = "give each send one recv on the other rank, and no more"
            return f"Let both ranks go by the same list: {first}."
        if found.call.op == "recv":
            return f"Let {who} call {made} {when}, or {first}."
        if found.call.shape is None:
            return f"Let {who} call {made} at the same point as the others, or {first}."
        return (
            f"Let {who} call {made} {when}, with zeros or an empty tensor if it has nothing to "
            f"send, or {first}."
        )
    usual = wait_cycle.with_group(situation.case, found.usual) if found.usual is not None else ""
    if found.what is What.SWAPPED or (found.what is What.OTHER_CALL and found.call.peer is None):
        group = ", or make it in a group of those who reach it" if found.call.peer is None else ""
        return f"Let {who} call {usual} before {made}, as the others expect{group}."
    if found.call.peer is not None and found.call.peer >= 0:
        end = "send" if found.call.op == "recv" else "recv"
        return (
            f"Make {made} only together with its {end} on rank {found.call.peer}: both, or neither."
        )
    return f"Make {made} on every rank at the same point, or on no rank."


def _peers(situation: Situation, found: Departed) -> set[int]:
    """Return the ranks that a rank sends to from the line of a call, if there are several."""
    log = situation.case.log(found.ranks[0])
    if log is None or found.call.site is None:
        return set()
    sent = [
        (channel.destination, log.call(channel, count))
        for channel, count in log.last_channel_seq.items()
        if channel.source == log.rank
    ]
    peers = {peer for peer, one in sent if one is not None and one.site == found.call.site}
    return peers if len(peers) > 1 else set()
