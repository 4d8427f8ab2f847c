"""A rank kept back one of the messages that it hands on from one to another, in words."""

from __future__ import annotations

from collectrace.align.diagnosis import ways_past
from collectrace.align.diagnosis.callers import at_its_line
from collectrace.align.diagnosis.wording import Reason
from collectrace.align.judging.case import Case
from collectrace.align.judging.circles.handed_on import HandedOn


def reason(case: Case, found: HandedOn, waits: str) -> Reason:
    """How many it got, and how many it handed on. ``waits``: who waits for whom, a sentence."""
    rank, source, waiter = found.rank, found.source, found.waiter
    place = at_its_line(case, rank, found.due)
    ways = ways_past.few(case, case.stack(rank, found.due))
    fixes = (
        ways_past.fix(ways, found.due.op),
        (
            f"Let rank {rank} make the send{place} for each message that it gets, with an empty "
            f"one or zeros where there is nothing to hand on; or let it tell rank {waiter} first "
            "how many there will be."
        ),
    )
    return Reason(
        f"{waits} Rank {rank} got {found.times + 1:,} messages from rank {source}, and handed "
        f"{found.times:,} of them on to rank {waiter} by its send{place}, each right behind it; "
        f"one it kept, by what was in it. Rank {waiter} asks for as many as rank {source} sent, "
        f"and exchanges nothing with rank {source} but through rank {rank}."
        f"{ways_past.led(ways, f'rank {rank}')}",
        "\n".join(filter(None, fixes)),
    )
