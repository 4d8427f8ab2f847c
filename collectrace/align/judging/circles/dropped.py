"""One of two ranks that left out calls of its round after an exception, as the other never could.

One against one proves nothing where a loop, or a condition, on either side may have been wrong. An
exception that a rank takes by itself is known to nobody else; and a rank whose call nothing leads
past makes it in every round.
"""

from __future__ import annotations

from collectrace import exceptions
from collectrace.align.judging import choices
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.candidates import waited_for
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.own_round import LeftRound, kept_round, left_own_round
from collectrace.align.matching import habit
from collectrace.align.ranks.waitgraph import Edge
from collectrace.align.reading import statements
from collectrace.align.reading.evidence import StreamKey


@once
def dropped(case: Case, candidate: Candidate) -> LeftRound | None:
    """The one of a circle of two that can only have come past a call by a handler; else None."""
    cycle = candidate.cycle
    if len(cycle) != 2:
        return None
    left = [left_own_round(case, edge.waiting.rank) for edge in cycle]
    if left[0] is None:
        cycle, left = cycle[::-1], left[::-1]
    one, other = left
    if one is None or other is not None or not _has_left_out(one):
        return None
    if cycle[1].waiting.channel != one.key or not kept_round(case, cycle[1].waiting.rank):
        return None  # the other awaits something else, or more than in the rounds before
    past = choices.of_call(case, case.stack(one.rank, one.usual), case.stack(one.rank, one.made))
    if past is None or len(past) != 1 or not _goes_on(case, past[0], one):
        return None
    if _was_let_down(case, one):
        return None
    return one if _is_bound(case, cycle[1], one) else None


def _has_left_out(left: LeftRound) -> bool:
    """Whether a rank went on to the collective of its round, as it never had so early."""
    return bool(left.skipped) and left.rounds >= habit.ENOUGH and left.made.peer is None


def _goes_on(case: Case, way: str, left: LeftRound) -> bool:
    """Whether a way past the call that was left out goes on behind it after an error."""
    leaves, _ = statements.way_of(way)
    return leaves in ("continue", "pass") and choices.is_error_handler(
        case, way, case.stack(left.rank, left.usual)
    )


def _was_let_down(case: Case, left: LeftRound) -> bool:
    """Whether a rank had gone on after an exception that its peer may be to blame for."""
    log = case.log(left.rank)
    return log is None or any(
        one.t < left.made.t
        for one in (
            *log.failed,
            *(one for one in log.caught if exceptions.blames_peers(one.error, one.message)),
        )
    )


def _is_bound(case: Case, edge: Edge, left: LeftRound) -> bool:
    """Whether nothing leads the other past what it waits in, up to the collective behind it."""
    rank, made = edge.waiting.rank, left.made
    call = waited_for(case, edge.waiting)
    last = case.call(rank, StreamKey(made.group, made.device), made.seq - 1)
    if call is None or last is None:
        return False
    return choices.of_call(case, case.stack(rank, call), case.stack(rank, last)) == []
