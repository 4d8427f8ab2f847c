"""A rank that alone did not come to what all others of its group went on to: in words."""

from __future__ import annotations

from collectrace import words
from collectrace.align.diagnosis import conditions, decided, ways_past
from collectrace.align.diagnosis.callers import closed, named
from collectrace.align.diagnosis.standpoint import of_call
from collectrace.align.diagnosis.wording import Reason
from collectrace.align.judging.case import Case
from collectrace.align.judging.circles.went_past import WentPast
from collectrace.align.reading import chains


def reason(case: Case, found: WentPast, waits: str) -> Reason:
    """Where all others are. ``waits``: who waits for whom, a sentence."""
    rank, others, line = (
        found.rank,
        words.ranks(found.others),
        words.at_site(chains.site(found.frame)).removeprefix(" at "),
    )
    due = named(case, found.maker, found.due, brief=True)
    behind = named(case, rank, found.behind, brief=True)
    group = words.group(case.comparison.groups[found.behind.group])
    ways = ways_past.few(case, case.stack(found.maker, found.due))
    led = ways_past.led(ways, f"rank {rank}")
    points = of_call(case, found.maker, found.due), of_call(case, rank, found.behind)
    under = conditions.own(case, *points) if not led else None
    if under is not None:
        led = decided.of_one(under).cause
    take_part = (
        f"Let rank {rank} come to {line} as the others do, and make there each call of a group "
        f"that it is in; or let no rank go there."
    )
    return Reason(
        f"Rank {rank} alone went past {closed(due)} and on to {behind}: since their last "
        f"{found.since.op} of {group} all others, {others}, went on by {line}, to which no rank "
        f"had come before, and are held up there.{led} So they wait for each other: "
        f"{words.lower(waits)}",
        "\n".join(filter(None, (ways_past.fix(ways, found.due.op), take_part))),
    )
