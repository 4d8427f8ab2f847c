"""A call of a group within a larger one that one rank alone left out: in words."""

from __future__ import annotations

from collectrace import words
from collectrace.align.diagnosis import conditions, decided, ways_past
from collectrace.align.diagnosis.callers import closed, named
from collectrace.align.diagnosis.conditions import Condition
from collectrace.align.diagnosis.standpoint import of_call
from collectrace.align.diagnosis.wording import Reason
from collectrace.align.judging.case import Case
from collectrace.align.judging.circles.inner_call import LeftInner, LeftTurn
from collectrace.align.judging.circles.went_past import WentPast


def reason(case: Case, found: LeftInner, waits: str) -> Reason:
    """What the rank left out, and how that is known.

    ``waits``: who waits for whom, a sentence.
    """
    told = _turn(case, found, found.turn) if found.turn is not None else _sister(case, found)
    return Reason(f"{told.cause} So they wait for each other: {words.lower(waits)}", told.fix)


def _turn(case: Case, found: LeftInner, turn: LeftTurn) -> Reason:
    """It had always made the call at that turn of its own."""
    rank, op, others = found.rank, found.due.op, words.ranks(found.others)
    before, due, made = (
        named(case, rank, call, brief=True) for call in (turn.before, found.due, turn.made)
    )
    more = f"{closed(due)}, the first of {turn.calls} calls" if turn.calls > 1 else due
    beside = f"behind {before}" if turn.follows else f"before {made}"
    went = f"went on to {made}" if turn.follows else f"came there from {before}"
    led, around = ways(case, found, rank), under(case, found, rank)
    if not led.cause and around is not None:
        led = decided.of_one(case, around)
    take_part = (
        f"Let rank {rank} take part in that {op} each time, with zeros or an empty tensor where it "
        f"has nothing of its own; or let rank {rank} and {others} agree first to leave it out."
    )
    return Reason(
        f"Rank {rank} alone left out {closed(more)} this time, and {went}: {others} came to the "
        f"{op}, and all other ranks went on as in the rounds before. Each of the {turn.times:,} "
        f"times before, {beside}, rank {rank} had called it.{led.cause}",
        "\n".join(filter(None, (led.fix, take_part))),
    )


def _sister(case: Case, found: LeftInner) -> Reason:
    """The rank in its place of another group of the kind made the call."""
    rank, like, op = found.rank, found.like, found.due.op
    assert like is not None
    due = named(case, like, found.due, brief=True)
    behind = named(case, rank, found.behind, brief=True)
    groups = words.listed([words.ranks(info.ranks) for info in found.sisters])
    kind = words.verb(found.sisters, "the other group", "each other group")
    past, around = ways(case, found, like), under(case, found, like)
    led = past.cause or (decided.of_one(case, around).cause if around is not None else "")
    look = f": look at {around.quoted}" if around is not None and not past.fix else ""
    as_there = (
        f"Let rank {rank} call the {op} in its group as rank {like} does in its own{look}. Or "
        f"leave the {op} out on every rank of all these groups."
    )
    return Reason(
        f"Rank {rank} did not come to a {op} in this round as rank {like}, in its place of another "
        f"group, came to {due}: it alone went on to {behind}. In {kind} of this kind, {groups}, "
        f"every rank came to it, in the place of {words.ranks(found.others)} from the same line."
        f"{led}",
        "\n".join(filter(None, (past.fix, as_there))),
    )


def ways(case: Case, found: LeftInner | WentPast, maker: int) -> Reason:
    """Ways past the call that is due, where ``maker`` made it: a sentence after a space."""
    past = ways_past.few(case, case.stack(maker, found.due))
    led = ways_past.led(past, f"rank {found.rank}")
    return Reason(led, ways_past.fix(past, found.due.op))


def under(case: Case, found: LeftInner | WentPast, maker: int) -> Condition | None:
    """What the call that is due stands under, where ``maker`` made it, and the next does not."""
    return conditions.own(
        case, of_call(case, maker, found.due), of_call(case, found.rank, found.behind)
    )
