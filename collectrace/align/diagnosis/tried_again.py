"""A call made once more by a new try: a loop around it has a handler that leads back to it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from collectrace import words
from collectrace.align.diagnosis import fewer_rounds, ways_past
from collectrace.align.diagnosis.callers import closed, named
from collectrace.align.diagnosis.loop_lines import LoopLine, around_both, innermost_loop
from collectrace.align.diagnosis.standpoint import Standpoint, standpoints
from collectrace.align.diagnosis.wording import Reason
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.reading import chains, retries, statements
from collectrace.records import Call

_LEADS_BACK: Final = ("pass", "continue")
"""How a handler leaves that lets a loop around its ``try`` go on."""


class _Retry(NamedTuple):
    """A loop, and what in it catches that a turn of it failed."""

    loop: LoopLine
    handlers: Sequence[ways_past.WayPast]


def reason(case: Case, candidate: Candidate) -> Reason | None:
    """One side makes the call before its row once more, as never before, in a loop of tries.

    That an exception was caught is not recorded where it passed no call: so it is told as what may
    have been. Not where any rank has made that call twice in a row before: then each turn makes it.
    """
    points = standpoints(candidate)
    if len(points) != 2 or candidate.cause is not None:
        return None
    for mine, others in (points, points[::-1]):
        if candidate.suspects and not set(mine.ranks) <= set(candidate.suspects):
            continue
        retry = _retry(case, mine)
        if retry is None or not _is_once_more(case, candidate, mine, others):
            continue
        if _may_be_called_again(case, mine, others):
            continue
        who, whose = words.ranks(mine.ranks), words.ranks(others.ranks)
        what = closed(named(case, mine.ranks[0], mine.call))
        went = named(case, others.ranks[0], others.call, brief=True).removesuffix(",")
        told = ways_past.told(retry.handlers)
        return Reason(
            f"{words.upper(who)} issued {what} once more, and {whose} went on to {went}. It stands "
            f"in {retry.loop.quoted}, to which {told} {words.verb(retry.handlers, 'leads', 'lead')}"
            f" back: either a try failed on {who} alone, behind the call, and began anew, or {who} "
            "came to it again in a further round.",
            f"If a try failed: let no rank try again alone. Let all ranks learn that one failed "
            "(an all_reduce of an error flag behind the `try`), and begin the next try together; "
            f"or keep {words.name(mine.call)} out of what is tried again.",
            "some ranks",
        )
    return None


def _retry(case: Case, point: Standpoint) -> _Retry | None:
    """The innermost loop around a call, if a handler in it leads back to the call."""
    loop = innermost_loop(case, point.stack)
    if loop is None:
        return None
    inner = list(point.stack[: point.stack.index(loop.frame)])
    around = case.statements(chains.site(loop.frame))
    within = around[around.index(loop.line) + 1 :]
    if not any(statements.code_of(line).startswith("try:") for line in within):
        return None
    if not retries.leaves_on_success(case.code, chains.site(loop.frame)):
        return None  # each turn of it is for something else
    handlers = [
        way
        for way in ways_past.of_frame(case, loop.frame)
        if way.is_handler and way.leaves in _LEADS_BACK
    ]
    kept = [way for frame in inner for way in ways_past.of_frame(case, frame) if way.is_handler]
    return _Retry(loop, handlers) if handlers and not kept else None


def _may_be_called_again(case: Case, mine: Standpoint, others: Standpoint) -> bool:
    """Whether a loop around both may have led back to the tries, past the others' call."""
    around = around_both(case, mine.stack, others.stack)
    return around is not None and fewer_rounds.seen(case, others, mine.ranks, around).left_out


def _is_once_more(case: Case, candidate: Candidate, mine: Standpoint, others: Standpoint) -> bool:
    """Whether ranks make the call that they made last, which nobody ever did before."""
    rank, seq = mine.ranks[0], candidate.seq
    last = case.last_before(rank, candidate.stream, seq)
    if last is None or not _is_of(case, rank, last, mine):
        return False
    for one in (rank, others.ranks[0]):
        rows = [call for call in case.before(one, candidate.stream, seq) if call is not None]
        if any(
            _is_of(case, one, a, mine) and _is_of(case, one, b, mine) for a, b in pairwise(rows)
        ):
            return False
    return True


def _is_of(case: Case, rank: int, call: Call, point: Standpoint) -> bool:
    return call.op == point.call.op and case.stack(rank, call) == tuple(point.stack)
