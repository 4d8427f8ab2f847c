"""A rank that went through the messages of an exchange in another order than each time before."""

from __future__ import annotations

from typing import NamedTuple

from collectrace.align.judging import announced
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.circles.left_alone import awaits, is_to_another
from collectrace.align.judging.own_exchange import keeps_order, left_own_order
from collectrace.align.judging.own_round import LeftRound
from collectrace.align.matching.deviations import CAN_OUTVOTE


class Reordered(NamedTuple):
    """The one of a circle of messages that changed its order, where all others kept theirs."""

    left: LeftRound
    others: tuple[int, ...]
    """The rest of the circle; at least two."""

    @property
    def rank(self) -> int:
        """Who changed its order."""
        return self.left.rank


@once
def reordered(case: Case, candidate: Candidate) -> Reordered | None:
    """Who of a circle of messages alone has put one first that came later in each exchange.

    Another waits for the one that it put off. Who merely serves its peers in whatever order they
    come has no order to leave; nor has who may have been told another one.
    """
    cycle = candidate.cycle
    ranks = tuple(edge.waiting.rank for edge in cycle)
    if len({*ranks}) < CAN_OUTVOTE or any(edge.waiting.channel is None for edge in cycle):
        return None
    found = [left for rank in ranks if (left := left_own_order(case, rank)) is not None]
    others = tuple(sorted({*ranks} - {left.rank for left in found}))
    if len(found) != 1 or not all(keeps_order(case, rank) for rank in others):
        return None
    (left,) = found
    if announced.was_told(case, left.rank):
        return None
    is_awaited = awaits(cycle, left) and not is_to_another(case, left)
    return Reordered(left, others) if is_awaited else None
