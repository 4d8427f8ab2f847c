"""A rank that did not come to a collective to which all others of the group came: in words."""

from __future__ import annotations

from collectrace import words
from collectrace.align.diagnosis import conditions, decided, ways_past
from collectrace.align.diagnosis.callers import closed, named
from collectrace.align.diagnosis.standpoint import of_call
from collectrace.align.diagnosis.wording import Reason
from collectrace.align.judging.case import Case
from collectrace.align.judging.circles.stayed_away import StayedAway


def reason(case: Case, found: StayedAway, waits: str) -> Reason:
    """Who came, and what led past it. ``waits``: who waits for whom, a sentence."""
    rank, maker, op = found.rank, found.maker, found.row.op
    row = named(case, maker, found.row, brief=True)
    message = named(case, rank, found.message, brief=True)
    ways = ways_past.few(case, case.stack(maker, found.row))
    led = ways_past.led(ways, f"rank {rank}")
    under = conditions.own(
        case, of_call(case, maker, found.row), of_call(case, rank, found.message)
    )
    if not led and under is not None:
        led = decided.of_one(under).cause
    take_part = (
        f"Let rank {rank} call the {op} as the others do, with zeros where it has nothing of its "
        "own; or make it in a group of those alone who have."
    )
    apart = words.verb(found.apart, "which exchanges", "which exchange")
    return Reason(
        f"{words.upper(words.ranks(found.others))}, all others of the group, came to "
        f"{closed(row)} for the first time, and rank {rank} alone did not: it went on to "
        f"{message}. That rank {maker} is there, the other end of that, is no step of its own: "
        f"{words.ranks(found.apart)} came there as well, {apart} no message with rank {rank}.{led} "
        f"So they wait for each other: {words.lower(waits)}",
        "\n".join(filter(None, (ways_past.fix(ways, op), take_part))),
    )
