"""Several ranks in a collective to which no other of its group comes: in words."""

from __future__ import annotations

from collectrace import words
from collectrace.align.diagnosis import conditions, decided
from collectrace.align.diagnosis.callers import closed, named
from collectrace.align.diagnosis.standpoint import of_call
from collectrace.align.diagnosis.wording import Reason
from collectrace.align.judging.candidates import waited_for
from collectrace.align.judging.case import Case
from collectrace.align.judging.circles.newcomers import Newcomers


def reason(case: Case, found: Newcomers, waits: str) -> Reason:
    """Who came, and where the others are. ``waits``: who waits for whom, a sentence."""
    who, others = words.ranks(found.ranks), words.ranks(found.others)
    op, group = found.call.op, words.group(case.comparison.groups[found.call.group])
    call = named(case, found.rank, found.call, brief=True)
    waiting = case.standings[found.others[0]].waiting[0]
    awaited = waited_for(case, waiting)
    under = None
    if awaited is not None:
        points = of_call(case, found.rank, found.call), of_call(case, waiting.rank, awaited)
        under = conditions.own(case, *points)
    led = decided.of_one(case, under).cause if under is not None else ""
    return Reason(
        f"{words.upper(who)} and no other rank came to {closed(call)} for the first time. It is of "
        f"{group}, and {others}, more than half of that, are each where every round before had led "
        f"them, and wait for {who}, be it through others.{led} So they wait for each other: "
        f"{words.lower(waits)}",
        f"If the {op} is meant for {who} only: pass a group of those (group=...), for without one "
        f"it is of all ranks. Else make it at one place of the round on every rank of {group}.",
    )
