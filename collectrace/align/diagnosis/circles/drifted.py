"""A rank of a circle whose calls have met others' of other lines since a row before: in words."""

from __future__ import annotations

from collectrace import words
from collectrace.align.diagnosis import ways_past
from collectrace.align.diagnosis.callers import closed, named
from collectrace.align.diagnosis.standpoint import of_call
from collectrace.align.diagnosis.wording import EVERY_RANK, Reason
from collectrace.align.judging.case import Case
from collectrace.align.judging.circles.drifted import Drifted


def reason(case: Case, found: Drifted, waits: str) -> Reason:
    """Since when, by which lines, and how. ``waits``: who waits for whom, a sentence."""
    who, others = words.ranks([found.rank]), words.ranks(found.others)
    group = words.group(case.comparison.groups[found.stream.group])
    made = closed(named(case, found.rank, found.made, brief=True))
    met = named(case, found.others[0], found.met, brief=True)
    point = of_call(case, found.others[0], found.met)._replace(ranks=found.others)
    past = ways_past.further_in(case, point, case.stack(found.rank, found.made), [found.rank])
    return Reason(
        f"At call {found.seq:,} of {group} {who} issued {made} where {others} issued "
        f"{met}: both fit, so nothing failed there, but {who} has been out of step since."
        f"{past.sentence if past is not None else ''} In the end they wait for each other: "
        f"{words.lower(waits)}",
        f"{past.fix}\n{EVERY_RANK}" if past is not None else EVERY_RANK,
    )
