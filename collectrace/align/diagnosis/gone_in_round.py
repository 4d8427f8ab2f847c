"""A rank that finished in the midst of its round, without a message that was due: in words."""

from __future__ import annotations

from collectrace import words
from collectrace.align.diagnosis import ways_past
from collectrace.align.diagnosis.callers import named
from collectrace.align.diagnosis.wording import Reason
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.gone_in_round import gone_in_round


def reason(case: Case, candidate: Candidate) -> Reason | None:
    """Which message was due, and what may have led past it; None: no such rank is to blame."""
    found = gone_in_round(case, candidate)
    if found is None or candidate.suspects != (found.rank,):
        return None
    rank, waiters = found.rank, words.ranks(found.waiters)
    usual, last = (named(case, rank, call, brief=True) for call in (found.usual, found.last))
    op = found.usual.op
    led = ways_past.led(ways_past.few(case, case.stack(rank, found.usual)), f"rank {rank}")
    return Reason(
        f"After each of the {found.rounds:,} equal rounds before rank {rank} went on from {last} "
        f"to {usual}. This time it finished there instead, and {waiters} came to the same {last} "
        f"and wait for a message of it each, as in every round.{led}",
        f"Let rank {rank} make its {op} in the last round, too, before it leaves the loop: a "
        "message that says that it was the last one. Or let every rank find out by itself, from "
        "what is the same on all of them, which round is the last.",
    )
