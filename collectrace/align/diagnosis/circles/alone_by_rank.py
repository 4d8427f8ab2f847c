"""A rank came alone, by its rank, to what all ranks of its messages had come to together."""

from __future__ import annotations

from collectrace import words
from collectrace.align.diagnosis.callers import named
from collectrace.align.diagnosis.wording import Reason, quoted
from collectrace.align.judging.case import Case
from collectrace.align.judging.circles.alone_by_rank import AloneByRank
from collectrace.align.reading import chains


def reason(case: Case, found: AloneByRank, waits: str) -> Reason:
    """By which condition, and where the others are. ``waits``: who waits for whom, a sentence."""
    others = words.ranks(found.others)
    made = named(case, found.rank, found.call)
    place = quoted(chains.file(found.frame), found.line)
    at = words.site(chains.site(found.frame))
    return Reason(
        f"{waits} Rank {found.rank} is in its {made} by {at}, to which no other rank came: it is "
        f"under {place}. Both ends of the {found.call.seq - 1:,} messages before were called by "
        f"one and the same line each time; {others} are in the collective behind.",
        f"Take {at} out of {place}: let every rank that has a part in its messages come to it, and "
        "use what comes out on the one that wants it.\n"
        f"If only rank {found.rank} is meant to do this: let it do without the messages of others.",
    )
