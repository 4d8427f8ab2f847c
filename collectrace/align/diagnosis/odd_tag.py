"""One rank passes another tag than all others from the same lines, in words."""

from __future__ import annotations

from collectrace import words
from collectrace.align.diagnosis.wording import Reason
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.odd_tag import odd_tag


def reason(case: Case, candidate: Candidate) -> Reason | None:
    """Which tag the others passed, and what to change; None: nobody is alone in it."""
    odd = odd_tag(case, candidate)
    if odd is None:
        return None
    others = words.ranks(odd.others)
    return Reason(
        f"In their message of the same number from the same lines {others} passed tag {odd.usual}, "
        f"and so does the other end of this one; rank {odd.rank} alone passed {odd.tag}.",
        f"Let rank {odd.rank} pass tag {odd.usual} there, as "
        f"{others} {words.verb(odd.others, 'does', 'do')}. Where the tag counts "
        "steps or versions, let all begin at one number: broadcast it from one rank when they "
        "start, or resume.",
    )
