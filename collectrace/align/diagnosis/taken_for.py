"""A call that only one side made, and that met another one in the row before: in words."""

from __future__ import annotations

from collectrace import words
from collectrace.align.diagnosis import conditions, decided, standpoint
from collectrace.align.diagnosis.callers import named
from collectrace.align.diagnosis.wording import EVERY_RANK, Reason
from collectrace.align.judging import taken_for
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case


def reason(case: Case, candidate: Candidate) -> Reason | None:
    """Who made a call that the others took for theirs; None: nobody, as far as is known."""
    found = taken_for.taken_for(case, candidate) if candidate.cause is None else None
    if found is None or candidate.seq is None:
        return None
    rank, other = found.side.ranks[0], found.others.ranks[0]
    who, others = words.ranks(found.side.ranks), words.ranks(found.others.ranks)
    was = words.verb(found.others.ranks, "was", "were")
    extra = standpoint.of_call(case, rank, found.extra)
    under = conditions.own(case, extra, standpoint.of_call(case, other, found.met))
    decides = decided.extra(case, under) if under is not None else Reason("", "")
    made = named(case, rank, found.extra)
    more, less = f"{who} made one call more", f"{others} left one out"
    suspects = set(candidate.suspects)
    reading = f"{more}, or {less}"
    if suspects == set(found.side.ranks):
        reading = more
    elif suspects:
        reading = less
    return Reason(
        f"At call {candidate.seq - 1} {who} issued {made}, and {others} "
        f"{named(case, other, found.met, brief=True)}. The bytes fit, so each took the other for "
        f"its own, silently. {words.upper(who)} {words.verb(found.side.ranks, 'is', 'are')} now "
        f"where {others} {was} then, and {others} never made that first call: {reading}."
        f"{decides.cause}",
        decides.fix
        or f"Make {words.name(found.extra)}{words.at(found.extra)} on every rank"
        f"{'' if reading == less else ' or on none'}: what leads to it may be a property that "
        "keeps its value, a __str__ or a logger, to which some ranks come and others do not.\n"
        f"{EVERY_RANK}",
        "some ranks",
    )
