"""A rank made a message from a line at which none of its like was, in words."""

from __future__ import annotations

from collectrace import words
from collectrace.align.diagnosis.callers import named
from collectrace.align.diagnosis.wording import Reason
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.odd_line import odd_line


def reason(case: Case, candidate: Candidate) -> Reason | None:
    """What its like did, after a space, and what to change; None: no message is known to be odd."""
    odd = odd_line(case, candidate)
    if odd is None:
        return None
    who, hub, likes = f"rank {odd.rank}", f"rank {odd.hub}", words.ranks(odd.likes)
    made, nth = named(case, odd.rank, odd.call), words.ordinal(odd.call.seq)
    is_sent = odd.call.op == "send"
    awaits, takes = ("awaits", "receive") if is_sent else ("sends", "send")
    cause = (
        f" The {nth} message {'from' if is_sent else 'to'} {who} {'to' if is_sent else 'from'} "
        f"{hub} is {'its' if is_sent else 'for its'} {made}, where no other rank ever was;"
    )
    if odd.is_extra:
        cause += (
            f" {likes} made no such one, and all others from the same lines as {who}: "
            f"so each that {who} made behind it meets what {hub} {awaits} for the one before."
        )
    else:
        there = f": {named(case, odd.likes[0], odd.usual)}" if odd.usual is not None else ""
        cause += f" what {hub} {awaits} fits those of {likes}{there}."
    usual = odd.usual if not odd.is_extra else None
    instead = (
        f"make the {usual.api or usual.op} there that {likes} "
        f"{words.verb(odd.likes, 'makes', 'make')}, in place of its {made}"
        if usual is not None
        else f"leave out its {made}"
    )
    return Reason(
        cause,
        f"Let {who} {instead}; or, if it is meant, let {hub} {takes} it as well. Messages match in "
        "the order in which they are issued: give one that is made only at times a tag of its own, "
        f"or tell {hub} first that it comes.",
    )
