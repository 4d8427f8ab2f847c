"""A rank that made fewer calls in a row than in every round before, in words."""

from __future__ import annotations

from collections.abc import Sequence

from collectrace import words
from collectrace.align.diagnosis.wording import loads_data
from collectrace.align.judging.case import Case
from collectrace.align.judging.circles.shorter_run import ShorterRun, number_told
from collectrace.align.judging.own_round import LeftRound
from collectrace.align.ranks.waitgraph import Edge
from collectrace.align.reading import chains


def told(left: LeftRound, run: ShorterRun | None) -> str:
    """How often a rank had made its usual call in a row: a sentence after a space, or nothing."""
    if run is None:
        return ""
    calls = words.counted(run.now, f"{left.usual.op} call")
    times = f"{run.usual} each of the {run.before:,} times before"
    return f" It made {calls} there before it went on, {times}."


def fix(case: Case, cycle: Sequence[Edge], left: LeftRound) -> str:
    """What makes the rows of calls equally long that the ranks go through in a round."""
    even = "Let every rank go through the same number of steps in each round."
    number = number_told(case, left, {left.rank, *(edge.waiting.rank for edge in cycle)})
    if number is not None:
        at = words.site(chains.site(number.where[0]))
        return (
            f"{even} Rank {left.rank} called {words.name(number.call)} at {at} ahead of them in "
            "every round: if that tells how many there are, let every rank go by the number that "
            "was told there, and by none of its own."
        )
    cut = "DataLoader(drop_last=True) or by" if loads_data(case) else "cutting or"
    return (
        f"{even} Where a batch is cut into pieces (microbatches), bring every batch to the same "
        f"number of them, by {cut} padding the last one; or let the rank that knows the number "
        "send it first."
    )
