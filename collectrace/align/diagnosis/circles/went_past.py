"""A rank that alone did not come to what all others of its group went on to: in words."""

from __future__ import annotations

from collectrace import words
from collectrace.align.diagnosis import decided
from collectrace.align.diagnosis.callers import closed, named
from collectrace.align.diagnosis.circles import inner_call
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
    ways = inner_call.ways(case, found, found.maker)
    under = inner_call.under(case, found, found.maker) if not ways.cause else None
    led = ways.cause or (decided.of_one(case, under).cause if under is not None else "")
    take_part = (
        f"Let rank {rank} come to {line} as the others do, and make there each call of a group "
        f"that it is in; or let no rank go there."
    )
    return Reason(
        f"Rank {rank} alone went past {closed(due)} and on to {behind}: since their last "
        f"{found.since.op} of {group} all others, {others}, went on by {line}, to which no rank "
        f"had come before, and are held up there.{led} So they wait for each other: "
        f"{words.lower(waits)}",
        "\n".join(filter(None, (ways.fix, take_part))),
    )
