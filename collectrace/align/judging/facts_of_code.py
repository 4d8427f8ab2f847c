"""Evidence from the source: conditions on the rank, exceptions, and loops."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import permutations

from collectrace.align.code.conditions import holds_at_intervals
from collectrace.align.code.controls import Condition
from collectrace.align.code.decide import decide
from collectrace.align.code.decisions import Decision
from collectrace.align.code.graph import Way
from collectrace.align.code.names import How
from collectrace.align.code.origins import Origin
from collectrace.align.deciding import sides
from collectrace.align.deciding.agreements import RecordedAgreements
from collectrace.align.deciding.sides import Pair
from collectrace.align.judging import departures, hooks, places
from collectrace.align.judging.alone import alone_by_rank, must_admit_only
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.departures import What
from collectrace.align.judging.evidence import Evidence
from collectrace.align.judging.other_lines import counterparts
from collectrace.align.judging.places import DivergedSides, Place
from collectrace.align.matching import habit
from collectrace.align.reading import chains


def by_rank(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find ranks that a condition on the rank led to a call that nobody made before."""
    found = alone_by_rank(case, candidate)
    if found is not None:
        ranks = tuple(sorted(found.place.ranks))
        yield Evidence("rank_condition", ranks, (found.condition.site,), found)


def in_hook(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find the rank with a call in a function that a framework calls on one rank only."""
    found = hooks.call_in_hook(case, candidate)
    if found is not None:
        yield Evidence("in_hook_of_one_rank", tuple(found.side.ranks), (chains.site(found.frame),))


def elsewhere(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Protect ranks under a condition on the rank if others can meet them at another line."""
    found = alone_by_rank(case, candidate)
    if found is not None and (sites := counterparts(case, found)):
        yield Evidence("other_line_for_others", tuple(sorted(found.place.ranks)), sites, found)


def by_exception(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find the one side that made its call because it caught an exception.

    The call is in a handler, or only a handler can have skipped the call of the others.
    """
    at = places.diverged_sides(case, candidate)
    if at is None:
        return
    handlers = [[one for one in places.above(case, place) if one.is_handler] for place in at.places]
    handling = [n for n, those in enumerate(handlers) if those]
    for n, place in enumerate(at.places):
        own = handlers[n]
        if own and len(handling) == 1:
            yield Evidence("in_handler", tuple(sorted(place.ranks)), (own[0].site,), place)
            return
    pair, decisions = between(case, candidate)
    if pair is None or not decisions:
        return
    if all(one.origins == (Origin.EXCEPTION,) for one in decisions):
        sides = {
            rank
            for one in decisions
            for rank, did in zip(pair.ranks, one.outcomes, strict=True)
            if did is not None and did.way is Way.HANDLER
        }
        for place in at.places:
            if len(sides) == 1 and sides & {*place.ranks}:
                site = f"{decisions[0].site.path}:{decisions[0].site.line}"
                yield Evidence("in_handler", tuple(sorted(place.ranks)), (site,), decisions[0])


def at_intervals(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Protect ranks with a call that is made at intervals, which each rank counts for itself.

    Another rank may call it at other times, and either count may be wrong.
    """
    at = places.diverged_sides(case, candidate)
    for place in at.places if at is not None else ():
        own = _conditions_of_its_own(case, at, place) if at is not None else []
        if own and all(_counts(case, one) for one in own):
            yield Evidence("called_at_intervals", tuple(sorted(place.ranks)), (own[0].site,))


def _counts(case: Case, condition: Condition) -> bool:
    """Whether a condition holds at intervals, by its test or by the values of its names."""
    definitions = case.program.definitions(condition.function)
    tests = [condition.test] if condition.test is not None else []
    names = [one.id for test in tests for one in ast.walk(test) if isinstance(one, ast.Name)]
    given = [one for name in names for one in (definitions.all(name) if definitions else ())]
    tests += [one.value for one in given if one.how is How.VALUE and one.value is not None]
    return any(map(holds_at_intervals, tests))


def led_past_by_rank(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find the side that skipped, by a condition on the rank, a call that it made before.

    A condition on the rank alone would have skipped the call from the start.
    """
    pair, decisions = between(case, candidate)
    at = places.diverged_sides(case, candidate)
    if pair is None or at is None or len(decisions) != 1 or len(at.places) != 2:
        return
    for gone, left in permutations(at.places):
        under = {one.key for one in places.above(case, gone)}
        if not places.was_there(case, candidate, gone.ranks[0], left.frames, at.seq):
            continue
        for condition in places.conditions_at(case, pair.ranks[0], decisions[0].site):
            opens = must_admit_only(case, condition, gone.ranks, left.ranks)
            keeps = must_admit_only(case, condition.opposite, left.ranks, gone.ranks)
            if opens and not keeps and condition.key not in under:
                sites = (condition.site,)
                yield Evidence("led_past_by_rank", tuple(sorted(gone.ranks)), sites, condition)
                return


def new_in_loop(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find the one side at a line that no rank ever ran, inside the loop of the others.

    Behind the loop it could have left the loop too early, or the others too late.
    """
    found, at = departures.from_own(case, candidate), places.diverged_sides(case, candidate)
    if found is None or at is None or found.what is not What.EXTRA:
        return
    mine = next(one for one in at.places if {*one.ranks} == {*found.ranks})
    others = at.others(mine)
    known = {
        frame
        for rank in case.evidence.logs
        for frame in places.frames_known(case, candidate, rank, mine, at.seq)
    }
    lines = dict.fromkeys(chains.outermost_apart(mine.frames, other.frames)[0] for other in others)
    if lines.keys() & known or not all(places.may_follow(case, mine, other) for other in others):
        return
    own = _conditions_of_its_own(case, at, mine)
    if found.alike >= habit.ENOUGH and own and not any(one.is_fork for one in own):
        sites = tuple(chains.site(line) for line in lines)
        yield Evidence("new_in_loop_of_others", found.ranks, sites, found)


def _conditions_of_its_own(case: Case, at: DivergedSides, mine: Place) -> list[Condition]:
    """Return the conditions that decide about one place and about no other."""
    foreign = {one.key for other in at.others(mine) for one in places.above(case, other)}
    return [one for one in places.above(case, mine) if one.key not in foreign and one.test]


@once
def between(case: Case, candidate: Candidate) -> tuple[Pair | None, Sequence[Decision]]:
    """Return two sides of a candidate, and the statements that can have decided between them."""
    pair = next(sides.across(case, candidate), None)
    if pair is None:
        return None, ()
    agreements = RecordedAgreements(case, pair.ranks, pair.made)
    return pair, decide(case.program, pair.one, pair.two, agreements).decisions


def from_own_rounds(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find the one side that left its usual iteration while the others kept theirs."""
    found = departures.from_own(case, candidate)
    if found is not None and found.alike >= habit.ENOUGH:
        yield Evidence("left_own_rounds", found.ranks, (), found)
