"""Who of a circle left the common order, and by which rule that is proven."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.caught import handling
from collectrace.align.judging.circles.alone_by_rank import AloneByRank, alone_by_rank
from collectrace.align.judging.circles.drifted import Drifted, drifted
from collectrace.align.judging.circles.dropped import dropped
from collectrace.align.judging.circles.fewer_visits import FewerVisits, fewer_visits
from collectrace.align.judging.circles.group_by_rank import GroupByRank, group_by_rank
from collectrace.align.judging.circles.handed_on import HandedOn, handed_on
from collectrace.align.judging.circles.inner_call import LeftInner, left_inner
from collectrace.align.judging.circles.left_alone import left_alone
from collectrace.align.judging.circles.left_once import LeftOnce, left_once
from collectrace.align.judging.circles.new_in_loop import new_in_loop
from collectrace.align.judging.circles.newcomers import Newcomers, newcomers
from collectrace.align.judging.circles.odd_tally import OddTally, odd_tally
from collectrace.align.judging.circles.outnumbered import Outnumbered, outnumbered
from collectrace.align.judging.circles.reordered import Reordered, reordered
from collectrace.align.judging.circles.short_sender import short_sender
from collectrace.align.judging.circles.takers import Uneven, uneven
from collectrace.align.judging.circles.unclosed import Unclosed, unclosed
from collectrace.align.judging.circles.unsent import Unsent, unsent
from collectrace.align.judging.circles.unserved import Unserved, unserved
from collectrace.align.judging.circles.went_past import WentPast, went_past
from collectrace.align.judging.own_round import LeftRound

Departure = (
    LeftRound
    | Unsent
    | Uneven
    | Unserved
    | Unclosed
    | OddTally
    | FewerVisits
    | LeftInner
    | LeftOnce
    | HandedOn
    | Reordered
    | Drifted
    | Outnumbered
    | Newcomers
    | AloneByRank
    | GroupByRank
    | WentPast
)
"""What the rank to blame, ``rank``, did otherwise than its like, or than before."""

RULES: Final[tuple[Callable[[Case, Candidate], Departure | None], ...]] = (
    left_alone,
    short_sender,
    dropped,
    unsent,
    uneven,
    unserved,
    unclosed,
    odd_tally,
    fewer_visits,
    left_inner,
    left_once,
    handed_on,
    reordered,
    drifted,
    outnumbered,
    newcomers,
    alone_by_rank,
    group_by_rank,
    went_past,
    new_in_loop,
)
"""Each proves a departure by itself; the first that does tells who."""


@once
def departed(case: Case, candidate: Candidate) -> Departure | None:
    """The first departure that is proven of a circle; None: none is."""
    return next((found for rule in RULES if (found := rule(case, candidate)) is not None), None)


def suspects_of_circle(case: Case, candidate: Candidate) -> tuple[int, ...]:
    """Who of a circle is proven to have left the common order."""
    found = handling(case, candidate) or departed(case, candidate)
    if isinstance(found, Newcomers):
        return found.ranks
    return (found.rank,) if found is not None else ()
