"""Ranks that a condition on the rank led to a call that no other rank can make."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from collectrace.align.code.controls import Condition
from collectrace.align.code.places import Place as CodePlace
from collectrace.align.code.rank_conditions import RankCondition
from collectrace.align.judging import places, sisters
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.places import DivergedSides, Place


@dataclass(frozen=True, slots=True)
class AloneByRank:
    """Ranks that a condition on the rank led to a call that no other rank can make."""

    place: Place
    others: tuple[Place, ...]
    seq: int
    """The number of their first call there."""
    condition: Condition
    assumed: bool
    """The assumed outcome of tests of the rank that the source does not resolve."""


@once
def alone_by_rank(case: Case, candidate: Candidate) -> AloneByRank | None:
    """Return the side that conditions on the rank led to its call; None unless it is exactly one.

    If there is none at the candidate, use the first call from a place that is new to its side, as
    that call may have met a call of the others.
    """
    if not places.is_whole(case, candidate):
        return None
    for at in (places.diverged_sides(case, candidate), places.sides_at_new_place(case, candidate)):
        found = _alone(case, candidate, at) if at is not None else None
        if found is not None:
            return found
    return None


def _alone(case: Case, candidate: Candidate, at: DivergedSides) -> AloneByRank | None:
    above = {id(place): places.above(case, place) for place in at.places}
    found: list[list[AloneByRank]] = []
    for mine in at.places:
        if not above[id(mine)]:
            continue
        others = at.others(mine)
        theirs = [rank for other in others for rank in other.ranks]
        foreign = {one.key: one.outcome for other in others for one in above[id(other)]}
        if any(foreign.get(one.key, one.outcome) is not one.outcome for one in above[id(mine)]):
            return None  # two branches of one condition
        found.append(
            [
                AloneByRank(mine, others, at.seq, one, assumed)
                for one in above[id(mine)]
                for assumed in (True, False)
                if one.key not in foreign and _admits_only(case, one, mine.ranks, theirs, assumed)
            ]
        )
    asking = [those for those in found if those]
    if len(asking) != 1 or asking[0][0].place.call is None:
        return None
    mine = asking[0][0].place
    if mine.call is None or sisters.sisters_agree(case, candidate, mine.call):
        return None  # ranks of other groups made the same call
    new = [
        one
        for one in asking[0]
        if not one.condition.is_fork and not _was_entered_before(case, candidate, one)
    ]
    others = at.others(mine)
    if not new or any(_may_differ(case, candidate, mine, other, at.seq) for other in others):
        return None
    return new[0]


def _admits_only(
    case: Case, condition: Condition, ranks: Iterable[int], others: Iterable[int], assumed: bool
) -> bool:
    """Whether a condition depends on the rank, and admits ``ranks`` but not ``others``."""
    return all(can_have_outcome(case, condition, rank, assumed) for rank in ranks) and not any(
        can_have_outcome(case, condition, rank, not assumed) for rank in others
    )


def can_admit_only(
    case: Case, condition: Condition, ranks: Sequence[int], others: Sequence[int]
) -> bool:
    """Whether a condition on the rank can admit ``ranks`` and exclude ``others``."""
    return any(_admits_only(case, condition, ranks, others, one) for one in (True, False))


def must_admit_only(
    case: Case, condition: Condition, ranks: Sequence[int], others: Sequence[int]
) -> bool:
    """Whether a condition on the rank admits ``ranks`` and excludes ``others`` in any case.

    That holds for both assumptions about unresolved tests of the rank in it.
    """
    return all(_admits_only(case, condition, ranks, others, one) for one in (True, False))


def can_have_outcome(case: Case, condition: Condition, rank: int, assumed: bool) -> bool:
    """Whether a condition can have its actual outcome on a rank."""
    if condition.node is None:
        return condition.is_handler or assumed
    at = CodePlace(condition.function, condition.node)
    asked = RankCondition(case.program, rank, assumed=assumed)
    return asked.outcome(condition.test, at) is not (not condition.outcome)


def _was_entered_before(case: Case, candidate: Candidate, found: AloneByRank) -> bool:
    """Whether one of these ranks earlier, or another rank at any time, was under the condition.

    Then the others met such a call before, and can handle it.
    """
    assert candidate.stream is not None
    for rank in case.comparison.streams.get(candidate.stream, ()):
        frames = places.frames_known(case, candidate, rank, found.place, found.seq)
        if places.is_under(case, rank, frames, found.condition):
            return True
    return False


def _may_differ(case: Case, candidate: Candidate, mine: Place, other: Place, seq: int) -> bool:
    """Whether something other than the condition may have separated two sides."""
    if other.call is None:
        return False  # it finished, so every call counts as passed
    known = {one.key for one in places.above(case, mine)}
    is_new = any(one.key not in known for one in places.above(case, other))
    if is_new and not places.was_there(case, candidate, other.ranks[0], other.frames, seq):
        return True
    return not places.may_follow(case, mine, other)
