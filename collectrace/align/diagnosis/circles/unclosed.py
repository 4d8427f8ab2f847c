"""A rank that came to the end of a round without the message by which all end theirs: in words."""

from __future__ import annotations

from collectrace import words
from collectrace.align.diagnosis import ways_past
from collectrace.align.diagnosis.callers import closed, named
from collectrace.align.diagnosis.wording import SEND_ALWAYS, Reason
from collectrace.align.judging.case import Case
from collectrace.align.judging.circles.unclosed import Unclosed


def reason(case: Case, found: Unclosed, waits: str) -> Reason:
    """How each of them ended this round, and those before.

    ``waits``: who waits for whom, a sentence.
    """
    rank, likes = found.rank, words.ranks(found.likes)
    all_ = words.ranks(sorted((*found.likes, rank)))
    usual = named(case, rank, found.usual)
    n = found.rounds
    before = "In the round before" if n == 1 else f"In each of the {n} rounds before"
    led = ways_past.led(ways_past.few(case, case.stack(rank, found.usual)), f"rank {rank}")
    ended, how = "called", f"and rank {found.hub} asks for no more of them than in a round before"
    if found.is_straight:
        ended, how = (
            "ended with",
            f"straight from the round before; rank {found.hub} waits for a message of any rank",
        )
    return Reason(
        f"{waits} {before} each of {all_} {ended} {closed(usual)} and so did {likes} in this one. "
        f"Rank {rank} came to {closed(named(case, rank, found.row, brief=True))} without it, "
        f"{how}.{led}",
        SEND_ALWAYS.format(rank=rank, usual=named(case, rank, found.usual, brief=True)),
    )
