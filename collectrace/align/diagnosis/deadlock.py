"""Ranks that wait for each other: a circle of calls, of messages, or of both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from collectrace import words
from collectrace.align.diagnosis import (
    by_framework,
    caught,
    circle,
    closing_send,
    conditions,
    decided,
    one_rank_hooks,
    partners,
    program,
    recomputed,
    refused,
    sisters,
    tally,
    uneven_round,
    ways_past,
)
from collectrace.align.diagnosis.callers import at_wait, site_of_wait
from collectrace.align.diagnosis.circles import group_circle, out_of_step
from collectrace.align.diagnosis.messages import COUNT_THEM
from collectrace.align.diagnosis.standpoint import Standpoint, of_call
from collectrace.align.diagnosis.wording import Reason, Wording, quoted
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.candidates import waited_for
from collectrace.align.judging.case import Case
from collectrace.align.judging.circles.departed import suspects_of_circle
from collectrace.align.judging.closing_send import in_circle
from collectrace.align.judging.own_round import left_own_round, program_of
from collectrace.align.judging.program import deviation
from collectrace.align.ranks.standing import Waiting
from collectrace.align.ranks.waitgraph import Edge
from collectrace.align.reading import chains, statements
from collectrace.align.reading.evidence import StreamKey
from collectrace.records import Call


def explain(case: Case, candidate: Candidate) -> Wording:
    """One circle in words."""
    cycle = candidate.cycle
    wording = refused.explain(case, candidate) or group_circle.explain(case, cycle)
    if wording is not None:
        return wording
    steps = circle.steps(case, cycle)
    again = sisters.reason(case, candidate)
    if again is not None:
        return Wording(circle.headline(case, cycle), again.cause, again.fix)
    hook = one_rank_hooks.reason(case, candidate)
    if hook is not None:
        return Wording(circle.headline(case, cycle), f"{steps} {hook.cause}", hook.fix)
    left, reason = deviation(case, candidate), program.reason(case, candidate)
    if left is not None and reason is not None:
        waits = f"{reason.cause} So they wait for each other: {words.lower(steps)}"
        headline = (
            program.told(case, left, short=True)
            if candidate.cause is None
            else circle.headline(case, cycle)
        )
        return Wording(headline, waits, reason.fix)
    by_exception = caught.in_circle(case, candidate)
    if by_exception is not None:
        return Wording(
            circle.headline(case, cycle), f"{steps} {by_exception.cause}", by_exception.fix
        )
    is_proven = bool(suspects_of_circle(case, candidate))
    known = partners.reason(case, candidate)
    if known is None and not is_proven:
        known = _of_round(case, candidate, cycle)
    if known is not None:
        text = f"{steps} {known.cause}"
        return Wording(circle.headline(case, cycle), text, known.fix)
    near = in_circle(case, cycle) if not is_proven else None
    if near is not None:
        both = closing_send.readings(case, near)
        return Wording(circle.headline(case, cycle), f"{steps} {both.cause}", both.fix)
    told = (
        out_of_step.reason(case, candidate, cycle, steps)
        or _run_again(case, cycle, steps)
        or _by_form(case, cycle, steps)
    )
    return Wording(circle.headline(case, cycle), told.cause, told.fix)


def _run_again(case: Case, cycle: Sequence[Edge], steps: str) -> Reason | None:
    """A circle in which a rank waits in a message of a forward that runs again, for backward."""
    for edge in cycle:
        call = waited_for(case, edge.waiting)
        again = recomputed.of_message(case, edge.waiting.rank, call) if call is not None else None
        if again is not None:
            return Reason(f"{steps} {again.cause}", again.fix)
    return None


def _by_form(case: Case, cycle: Sequence[Edge], steps: str) -> Reason:
    """What circles of such calls come from; ``steps``: who waits for whom, a sentence."""
    messages = [edge for edge in cycle if edge.waiting.channel is not None]
    if not messages:
        return _of_collectives(case, cycle, steps)
    if len(messages) < len(cycle):
        collective = next(edge.waiting for edge in cycle if edge.waiting.channel is None)
        return _of_both(case, messages[0].waiting, collective, steps)
    return Reason(
        f"{steps} {_TOGETHER}{out_of_step.first_time(case, cycle)}",
        by_framework.of_messages(case, out_of_step.awaited(case, cycle)) or _messages(case, cycle),
    )


_TOGETHER: Final = "Each is right by itself; together they wait for ever."


def _of_both(case: Case, one: Waiting, collective: Waiting, steps: str) -> Reason:
    """``one``: a wait in a message, where others wait in a ``collective``."""
    counted = tally.of_channel(case, one.channel) if one.channel is not None else ""
    under = _first_under(case, one, collective)
    return Reason(
        f"{steps} Some wait in a message, some in a collective: what rank {one.rank} waits for "
        f"comes behind the collective, or never.{f' {counted}' if counted else ''}{under.cause}",
        f"Finish the exchange before the collective, or after it, on every rank alike: move the "
        f"{one.op} of rank {one.rank}{at_wait(case, one)}, or the collective.\n"
        f"If the other end of that {one.op} is not behind the collective: "
        f"{words.lower(COUNT_THEM)}{under.fix}",
    )


def _first_under(case: Case, one: Waiting, collective: Waiting) -> Reason:
    """The condition by which a rank came to a message for the first time; words to append.

    Empty where it has been there before, or stands under nothing that the ``collective`` does not.
    """
    program, made = program_of(case, one.rank), waited_for(case, one)
    other = waited_for(case, collective)
    if program is None or made is None or other is None or not program.ends_anew:
        return Reason("", "")
    point = of_call(case, one.rank, made)
    under = conditions.own(case, point, of_call(case, collective.rank, other))
    if under is None:
        return Reason("", "")
    stands = decided.of_one(case, under).cause
    return Reason(
        f" Rank {one.rank} had never come to this {one.op} before.{stands}",
        f"\nLet both ends of the {one.op} ask the same: {under.quoted} must be true on the rank "
        "that is to answer, too, or on neither.",
    )


def _of_collectives(case: Case, cycle: Sequence[Edge], steps: str) -> Reason:
    """Groups that were entered in different orders, or a group that was meant to be another."""
    under = _conditions(case, cycle)
    cause = f"{steps} {_TOGETHER}{out_of_step.first_time(case, cycle)}{under.cause}"
    lines = {(edge.waiting.op, site_of_wait(case, edge.waiting)) for edge in cycle}
    first, last = (circle.what(case, edge) for edge in (cycle[0], cycle[-1]))
    order = (
        "enter the groups in the same order on every rank; moving one call is enough: rank "
        f"{cycle[0].waiting.rank} issues {last} before {first}."
    )
    groups = len({edge.waiting.group for edge in cycle})
    if len(lines) == 1:
        return Reason(
            f"{cause} It is one line, and the ranks give it {groups} different groups.",
            f"Pass the same group on every rank, if one is meant.\nElse {order}",
        )
    past = _ways_past(case, cycle)
    return Reason(
        f"{cause} They entered {groups} groups in different orders, or one of them has left out a "
        f"call before.{past.cause}",
        f"{past.fix}{under.fix}{words.upper(order)}\n"
        "Or, if one of these calls was meant for the other group, pass that.\n"
        "Or, if a branch has left out a call on one of them, make it on every rank.",
    )


def _points(case: Case, cycle: Sequence[Edge]) -> list[Standpoint]:
    calls = ((edge.waiting.rank, waited_for(case, edge.waiting)) for edge in cycle)
    return [of_call(case, rank, call) for rank, call in calls if call is not None]


def _ways_past(case: Case, cycle: Sequence[Edge]) -> Reason:
    """What leads past the one call of a circle to which it is seen that there are ways past.

    A sentence after a space, and what to change, before all else; empty: nothing is seen.
    """
    points, found = _points(case, cycle), []
    if len(points) != len(cycle):
        return Reason("", "")
    for point, edge in zip(points, cycle, strict=True):
        others = (one.stack for one in points if one is not point)
        shared = max((chains.shared(point.stack, stack) for stack in others), default=0)
        ways = ways_past.few(case, point.stack[: len(point.stack) - shared])
        if ways:
            found.append((point, edge.target[0], ways))
    if len(found) != 1:
        return Reason("", "")
    ((point, rank, ways),) = found
    name = f"{words.name(point.call)}{words.at(point.call)}"
    fix = ways_past.fix(ways, name)
    return Reason(ways_past.led(ways, f"rank {rank}", name), f"{fix}\n" if fix else "")


def _conditions(case: Case, cycle: Sequence[Edge]) -> Reason:
    """What stands above one call of a circle, and not above the others, and asks for the rank.

    Not where several came to it in a group within that of the others: it may be theirs alone.
    A sentence after a space, and what to change, before all else; empty: nothing is seen.
    """
    points = _points(case, cycle)
    for point in points:
        if _is_within(case, point.call, [one.call for one in points if one is not point]):
            continue
        around = {
            line for one in points if one is not point for _, line in case.branches(one.stack)
        }
        mine = [
            (file, line)
            for site, (file, line) in case.branches(point.stack)
            if (file, line) not in around
            and statements.tells_ranks_apart(case.spelled_out(site, line))
        ]
        if len(mine) == 1:
            made = f"{words.name(point.call)}{words.at(point.call)}"
            condition = quoted(*mine[0])
            return Reason(
                f" {words.upper(made)} stands under {condition}, which asks for the rank.",
                f"Take {made} out of {condition}, or make it in the group of those alone who come "
                "there.\n",
            )
    return Reason("", "")


def _is_within(case: Case, call: Call, others: Sequence[Call]) -> bool:
    """Whether several came to a collective in a group that is part of another's."""
    groups = case.comparison.groups
    members = {*groups[call.group].ranks} if call.group in groups else set()
    if call.peer is not None or not any(
        one.group in groups and members < {*groups[one.group].ranks} for one in others
    ):
        return False
    stream = StreamKey(call.group, call.device)
    return sum(case.call(rank, stream, call.seq) is not None for rank in members) > 1


def _of_round(case: Case, candidate: Candidate, cycle: Sequence[Edge]) -> Reason | None:
    """A message more than the round has, unless it is known better which rank left its round."""
    found = (left_own_round(case, edge.waiting.rank) for edge in cycle)
    left = [one for one in found if one is not None]
    if len(left) == 1 and not left[0].extra and not candidate.suspects:
        return None
    return uneven_round.reason(case, candidate)


def _messages(case: Case, cycle: Sequence[Edge]) -> str:
    """The fix of a circle of messages: the two calls of one rank in the other order."""
    calls = [waited_for(case, edge.waiting) for edge in cycle]
    if all(call is not None and call.api == "batch_isend_irecv" for call in calls):
        return _ONE_BATCH
    first, before = cycle[0].waiting, cycle[-1].waiting
    other, this = ("send" if before.op == "recv" else "recv"), first.op
    named = _named(other, before.rank), _named(this, cycle[0].target[0])
    tags = [_tag(one) for one in (before, first)]
    if other != this:
        named = f"its {other}", f"its {this}"
    elif named[0] == named[1]:
        named = named[0] + tags[0], named[1] + tags[1]
    return (
        f"Turn one of them round: rank {first.rank} issues {named[0]} before "
        f"{named[1]}{at_wait(case, first)}, and nobody waits any longer.\n"
        "Better, let all pass both to batch_isend_irecv([P2POp(isend, ...), P2POp(irecv, ...)]), "
        "which cannot block like this."
    )


_ONE_BATCH: Final = (
    "Every rank waits for its own batch first, and what it waits for is in a later batch of the "
    "other: hand a send, and the recv that the same two ranks exchange beside it, to one "
    "batch_isend_irecv([...]) on both. Where a list is cut into several, cut it at the same "
    "messages on every rank, not after so many of each rank's own; or issue all of them before "
    "the first wait()."
)


def _named(op: str, peer: int) -> str:
    return f"its {op} {'to' if op == 'send' else 'from'} rank {peer}"


def _tag(waiting: Waiting) -> str:
    return f" with tag {waiting.channel.tag}" if waiting.channel is not None else ""
