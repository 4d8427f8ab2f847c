"""Ranks that wait for each other: a circle of calls, of messages, or of both."""

from __future__ import annotations

from collections.abc import Sequence

from collectrace import words
from collectrace.align.diagnosis import (
    by_framework,
    circle,
    closing_send,
    partners,
    program,
    refused,
    sisters,
    tally,
    uneven_round,
)
from collectrace.align.diagnosis.callers import at_depth, closed, named, telling_depth
from collectrace.align.diagnosis.messages import COUNT_THEM
from collectrace.align.diagnosis.wording import Reason, Wording
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.closing_send import in_circle
from collectrace.align.judging.program import (
    LeftRound,
    deviation,
    left_own_round,
    short_sender,
)
from collectrace.align.ranks.waitgraph import Edge
from collectrace.records import Call


def explain(case: Case, candidate: Candidate) -> Wording:
    """One circle in words."""
    source = candidate.source
    assert isinstance(source, tuple)
    wording = refused.explain(case, candidate)
    if wording is not None:
        return wording
    steps = [circle.step(case, edge) for edge in source]
    again = sisters.reason(case, candidate)
    if again is not None:
        return Wording(circle.headline(case, source), again.cause, again.fix)
    left, reason = deviation(case, candidate), program.reason(case, candidate)
    if left is not None and reason is not None:
        waits = f"{reason.cause} So they wait for each other: {'; '.join(steps)}."
        headline = (
            program.told(case, left, short=True)
            if candidate.cause is None
            else circle.headline(case, source)
        )
        return Wording(headline, waits, reason.fix)
    messages = [edge for edge in source if edge.waiting.channel is not None]
    known = partners.reason(case, candidate) or _of_round(case, candidate, source)
    if known is not None:
        text = f"{circle.steps(case, source)} {known.cause}"
        return Wording(circle.headline(case, source), text, known.fix)
    near = in_circle(case, source)
    if near is not None:
        both = closing_send.readings(near)
        return Wording(
            circle.headline(case, source), f"{circle.steps(case, source)} {both.cause}", both.fix
        )
    if messages:
        told = _out_of_step(case, candidate, source, circle.steps(case, source))
        if told is not None:
            return Wording(circle.headline(case, source), told.cause, told.fix)
    cause = (
        f"{words.upper('; '.join(steps))}. Each is right by itself; together they wait for ever."
    )
    if len(messages) == len(source):
        fix = by_framework.of_messages(case, _awaited(case, source)) or _messages(source)
    elif messages:
        one = messages[0].waiting
        counted = tally.of_channel(case, one.channel) if one.channel is not None else ""
        cause = (
            f"{circle.steps(case, source)} Some wait in a message, some in a collective: what rank "
            f"{one.rank} waits for comes behind the collective, or never."
        )
        cause += f" {counted}" if counted else ""
        fix = (
            f"Finish the exchange before the collective, or after it, on every rank alike: move "
            f"the {one.op} of rank {one.rank}{words.at_site(one.site)}, or the collective.\n"
            f"If the other end of that {one.op} is not behind the collective: "
            f"{words.lower(COUNT_THEM)}"
        )
    else:
        one_line = len({(e.waiting.op, e.waiting.site) for e in source}) == 1
        first, last = (circle.what(case, edge) for edge in (source[0], source[-1]))
        order = (
            f"enter the groups in the same order on every rank; moving one call is enough: rank "
            f"{source[0].waiting.rank} issues {last} before {first}."
        )
        groups = len({edge.waiting.group for edge in source})
        if one_line:
            cause += f" It is one line, and the ranks give it {groups} different groups."
            fix = f"Pass the same group on every rank, if one is meant.\nElse {order}"
        else:
            cause += (
                f" They entered {groups} groups in different orders, or one of them has left out a "
                "call before."
            )
            fix = (
                f"{words.upper(order)}\n"
                "Or, if one of these calls was meant for the other group, pass that.\n"
                "Or, if a branch has left out a call on one of them, make it on every rank."
            )
    return Wording(circle.headline(case, source), cause, fix)


def _of_round(case: Case, candidate: Candidate, cycle: Sequence[Edge]) -> Reason | None:
    """A message more than the round has, unless it is known better which rank left its round."""
    left = _left_own(case, cycle)
    if len(left) == 1 and not left[0].extra and not candidate.suspects:
        return None
    return uneven_round.reason(case, candidate)


def _left_own(case: Case, cycle: Sequence[Edge]) -> list[LeftRound]:
    """The ranks of a circle that left a round of their own."""
    found = (left_own_round(case, edge.waiting.rank) for edge in cycle)
    return [left for left in found if left is not None]


def _out_of_step(
    case: Case, candidate: Candidate, cycle: Sequence[Edge], waits: str
) -> Reason | None:
    """A circle with messages of which some were a step too many, or too early; else None."""
    uneven = tally.uneven(case, cycle)
    short = short_sender(case, candidate)
    if short is not None and candidate.suspects == (short.rank,):
        made = named(case, short.rank, short.made)
        usual = named(case, short.rank, short.usual)
        return Reason(
            f"{waits} The messages do not come out even: {'; '.join(uneven)}. Rank {short.rank} "
            f"went on to {closed(made)} where it had called {usual} in every round before.",
            f"Let rank {short.rank} send in every round, an empty message or zeros where it has "
            "nothing; or tell the receiver how many messages are to come.",
        )
    if uneven:
        return Reason(
            f"{waits} Before that the messages do not come out even: {'; '.join(uneven)}.",
            by_framework.of_messages(case, _awaited(case, cycle)) or COUNT_THEM,
        )
    left = _left_own(case, cycle)
    if len(left) != 1 or _is_to_another(case, left[0]):
        return None
    counts = [tally.of_channel(case, e.waiting.channel) for e in cycle if e.waiting.channel]
    counted = "".join(f" {text}" for text in dict.fromkeys(counts) if text)
    others = [r for r in candidate.group.ranks if r != left[0].rank] if candidate.group else []
    counted += (
        f" {words.upper(words.ranks(others))}, more than half of the group, kept to one round."
        if candidate.suspects
        else " The logs do not show which of them was meant."
    )
    return _left(case, left[0], waits, counted)


def _is_to_another(case: Case, left: LeftRound) -> bool:
    """Whether a rank merely sent to another than before, which it may do in whatever order."""
    one, two = left.made, left.usual
    places = [(call.op, call.site, case.stack(left.rank, call)) for call in (one, two)]
    return not left.extra and places[0] == places[1]


def _left(case: Case, left: LeftRound, waits: str, counted: str) -> Reason:
    """One rank of a circle left its own round. ``counted``: sentences, each after a space."""
    rank = left.rank
    stacks = [case.stack(rank, call) for call in (left.made, left.usual)]
    depth = telling_depth(stacks)
    made, usual = (
        named(case, rank, at_depth(call, stack, depth), brief=True)
        for call, stack in zip((left.made, left.usual), stacks, strict=True)
    )
    if left.extra:
        calls, them = words.counted(left.extra, "call"), "this" if left.extra == 1 else "these"
        return Reason(
            f"{waits} Rank {rank} made {calls} more than in the rounds before, from {made}, and "
            "went on with its round behind; the others went on in theirs, so since then its "
            f"messages meet those of another step.{counted}",
            f"Make {them} {calls} ({made}) on every rank alike, with its receiving side, or on "
            "none: every stage must go through the same steps.",
        )
    again = f", its {words.ordinal(left.row)} {left.made.op} in a row" if left.row > 1 else ""
    return Reason(
        f"{waits} Rank {rank} called {closed(made)} where it had called {usual} in every round "
        f"before{again}; the others went on with their rounds.{counted}",
        f"Look why rank {rank} came to {made} before {usual} this time: a step that was left out, "
        "repeated, or made too early. Where the new order is meant, the others must change theirs "
        "at the same step: each send needs one recv on the other rank, so count both.\n"
        f"If the work ended there on rank {rank}: tell every rank of it in the same step, so that "
        "none waits for more.",
    )


def _awaited(case: Case, cycle: Sequence[Edge]) -> list[tuple[int, Call | None]]:
    """The messages that the ranks of a circle wait in."""
    found = []
    for waiting in (edge.waiting for edge in cycle):
        log = case.log(waiting.rank)
        if log is not None and waiting.channel is not None and waiting.seq is not None:
            call = log.channel_call(waiting.channel, waiting.seq)
            found.append((waiting.rank, call))
    return found


def _messages(cycle: Sequence[Edge]) -> str:
    """The fix of a circle of messages: the two calls of one rank in the other order."""
    first, before = cycle[0].waiting, cycle[-1].waiting
    other = "send" if before.op == "recv" else "recv"
    if other == first.op:
        mine = f"its {other} to" if other == "send" else f"its {other} from"
        other = f"{mine} rank {before.rank}"
        this = f"its {first.op} {'to' if first.op == 'send' else 'from'} rank {cycle[0].target[0]}"
    else:
        other, this = f"its {other}", f"its {first.op}"
    return (
        f"Turn one of them round: rank {first.rank} issues {other} before "
        f"{this}{words.at_site(first.site)}, and nobody waits any longer.\n"
        "Better, let all pass both to batch_isend_irecv([P2POp(isend, ...), P2POp(irecv, ...)]), "
        "which cannot block like this."
    )
