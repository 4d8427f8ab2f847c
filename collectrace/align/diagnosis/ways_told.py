"""Reasons that are told with the ways past a call, or by them alone."""

from __future__ import annotations

from collections.abc import Sequence

from collectrace import words
from collectrace.align.diagnosis import conditions, gone_past, ways_past
from collectrace.align.diagnosis.inputs import Inputs
from collectrace.align.diagnosis.loop_lines import outermost_loop
from collectrace.align.diagnosis.standpoint import Standpoint, standpoints
from collectrace.align.diagnosis.ways_past import MOST, Past, WayPast
from collectrace.align.diagnosis.wording import (
    DECIDED,
    EVERY_RANK,
    ONE_LENGTH,
    Reason,
    if_ended,
    without_vague,
)
from collectrace.align.judging import intervals
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.reading import chains, statements
from collectrace.records import Batch


def added(case: Case, candidate: Candidate, reason: Reason) -> Reason:
    """A reason with the ways past the call, where it names no condition already."""
    if candidate.cause is not None or reason.because not in ("some ranks", "left"):
        return reason
    is_by_turns = by_turns(case, candidate, reason)
    if any(told in reason.cause for told in DECIDED) and not is_by_turns:
        return _or_further_in(case, candidate, reason)
    found = gone_past.of_sides(case, candidate) or in_callback(case, candidate)
    if found is None:
        return reason
    if words.at(found.left.call) not in reason.cause:
        return _or_past_it(found, reason)
    if any(way.quoted in reason.cause for way in found.ways):
        return reason
    fix = found.fix
    if reason.fix == ONE_LENGTH:
        fix += f"\n{if_ended()}"
    elif not found.is_only and reason.fix != EVERY_RANK and not is_by_turns:
        fix += f"\n{reason.fix}"
    return Reason(without_vague(reason.cause) + found.sentence, fix, reason.because, found.fix)


def _or_further_in(case: Case, candidate: Candidate, reason: Reason) -> Reason:
    """With the ways that led others past who alone is under a condition that is not seen to differ.

    In a function that they may have come to as well, under that condition.
    """
    told = [one for one in conditions.of_sides(case, candidate) if one.quoted in reason.cause]
    if len(told) != 1 or told[0].asks or told[0].forks or told[0].is_guard or told[0].further:
        return reason
    found, one = gone_past.of_sides(case, candidate), told[0]
    if found is None or found.left.ranks != one.ranks or words.at(one.call) not in reason.cause:
        return reason
    stack = [chains.site(frame) for frame in found.left.stack]
    inner = stack[: stack.index(one.site)] if one.site in stack else []
    ways = tuple(way for way in found.ways if way.site in inner)
    if not ways or any(way.quoted in reason.cause for way in ways):
        return reason
    past = ways_past.of_others(found.left, found.gone.ranks, ways)
    return reason._replace(cause=reason.cause + past.sentence, fix=f"{past.fix}\n{reason.fix}")


def _or_past_it(found: Past, reason: Reason) -> Reason:
    """The ways past the call of who is told to have left out another: it may be one too soon."""
    if "may have" in reason.cause or any(way.quoted in reason.cause for way in found.ways):
        return reason
    return reason._replace(
        cause=f"{without_vague(reason.cause)} Or{found.sentence}",
        fix=f"{found.fix}\n{reason.fix}",
    )


def by_turns(case: Case, candidate: Candidate, reason: Reason) -> bool:
    """Whether all conditions that a cause names are alike on all ranks at one turn of a loop.

    Then none of them decided, and what led past the call does.
    """
    told = [one for one in conditions.of_sides(case, candidate) if one.quoted in reason.cause]
    return bool(told) and all(
        not one.further and intervals.is_by_turns(case, one.site, one.line) for one in told
    )


def in_callback(case: Case, candidate: Candidate) -> Past | None:
    """The ways past a call in a function that a library calls, for who is back in that library."""
    points = standpoints(candidate)
    if len(points) != 2:
        return None
    gone, left = sorted(points, key=lambda point: len(point.stack))
    inner = left.stack[: len(left.stack) - len(gone.stack)]
    if not inner or chains.shared(left.stack, gone.stack) < len(gone.stack):
        return None
    ways = ways_past.few(case, inner)
    return ways_past.of_others(left, gone.ranks, ways) if ways else None


def left_loop(case: Case, candidate: Candidate, counts: Inputs) -> Reason | None:
    """Some ranks left a loop that the others are in, by a way out of it that is seen.

    Not where a DataLoader or ``join()`` tells that the data came to its end.
    """
    found, way = gone_past.of_sides(case, candidate), out_of_loop(case, candidate)
    if found is None or found.loop is None or way is None or counts.told_by != "forwards":
        return None
    if not found.exits:
        return None
    gone, inside = found.gone, found.left
    who, others = words.ranks(gone.ranks), words.ranks(inside.ranks)
    return Reason(
        f"{words.upper(who)} left the loop {found.loop.quoted} before {others}: {counts.phrase()}. "
        f"{words.upper(who)} went on to {words.name(gone.call)}{words.at(gone.call)}; {others} "
        f"{words.verb(inside.ranks, 'is', 'are')} still in it, in {words.name(inside.call)}"
        f"{words.at(inside.call)}.{way.cause}",
        way.fix,
        "some ranks",
    )


def out_of_loop(case: Case, candidate: Candidate) -> Reason | None:
    """How ranks may have come out of a loop, or past the call in one of its rounds.

    A loop ends by itself, too: not so where the DataLoader is known to have had more.
    """
    found = gone_past.of_sides(case, candidate)
    if found is None or found.loop is None:
        return None
    last, other = (_last_batch(case, point) for point in (found.gone, found.left))
    both = last is not None and other is not None and last.loader == other.loader
    if both and last is not None and not last.end and found.exits:
        leads = words.verb(found.exits, "leads", "lead")
        return Reason(
            f" {words.upper(ways_past.told(found.exits))} {leads} out of it; the DataLoader of "
            f"{words.ranks(found.gone.ranks[:1])} had not come to its end, after "
            f"{words.counted(last.batch, 'batch', 'batches')} of this pass.",
            found.fix,
        )
    is_out = len(found.exits) == len(found.ways)
    return Reason(found.out_of_loop if is_out else found.sentence, f"{found.fix}\n{if_ended()}")


def _last_batch(case: Case, point: Standpoint) -> Batch | None:
    """The latest that a rank had asked its DataLoader for when it made its call."""
    log = case.log(point.ranks[0])
    found = [batch for batch in (log.batches if log is not None else ()) if batch.t < point.call.t]
    return found[-1] if found else None


def of_round(case: Case, stack: Sequence[str]) -> Reason | None:
    """The ways past a call, of such a stack, that leave out no more than a round of its loop."""
    loop = outermost_loop(case, stack)
    if loop is None:
        return None
    ways: dict[WayPast, None] = {}
    for n, frame in enumerate(stack[: loop[0] + 1]):
        loops = statements.loops(case.statements(chains.site(frame)))
        for way in ways_past.of_frame(case, frame):
            again = n < loop[0] or (way.leaves == "break" and len(loops) > 1)
            if again or way.leaves in ("continue", "pass"):
                ways[way] = None
        if loops and ways:
            break
    if not ways or len(ways) > MOST or all(way.leaves == "pass" for way in ways):
        return None  # a handler around it is told of by its `try`
    told = words.upper(ways_past.told(tuple(ways)))
    return Reason(f" {told} may have led past it.", ways_past.fix(tuple(ways), "call"))


def of_finished(case: Case, point: Standpoint, who: Sequence[int]) -> Reason | None:
    """The ways by which ranks that finished may have gone past others' call."""
    ways = ways_past.open_to(case, ways_past.few(case, point.stack), who)
    if not ways:
        return None
    found = ways_past.of_others(point, who, ways)
    return Reason(found.sentence, found.fix)
