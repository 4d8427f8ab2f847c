"""Several ranks, the fewer of a group, that came to a collective new to all, and are waited for.

As the last stage of a pipeline that reduces something over all ranks and not over its own: the
others are in the midst of a round, and wait for what should have come of it, be it through others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from collectrace.align.judging import announced
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.candidates import waited_for
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.own_round import kept_round, program_of, stacks_of
from collectrace.align.ranks import waitgraph
from collectrace.align.ranks.standing import Waiting
from collectrace.records import Call


class Newcomers(NamedTuple):
    """Who came to a collective of a group alone, the same call from the same lines."""

    ranks: tuple[int, ...]
    call: Call
    """As the first of them made it."""
    others: tuple[int, ...]
    """The rest of the group, more than they are, each where its round had led it every time."""

    @property
    def rank(self) -> int:
        """The first of them."""
        return self.ranks[0]


@once
def newcomers(case: Case, candidate: Candidate) -> Newcomers | None:
    """Those of a circle with messages who alone are in a collective that nobody has made before.

    Within the loops that the others are in: behind them it may be that those go one turn too far.
    """
    if all(edge.waiting.channel is None for edge in candidate.cycle):
        return None
    found = (_of_row(case, edge.waiting) for edge in candidate.cycle)
    return next((one for one in found if one is not None), None)


def _of_row(case: Case, wait: Waiting) -> Newcomers | None:
    stream, row = wait.stream, wait.seq
    if stream is None or row is None:
        return None
    members = case.comparison.groups[stream.group].ranks
    calls = {rank: call for rank in members if (call := case.call(rank, stream, row)) is not None}
    others = tuple(rank for rank in members if rank not in calls)
    if len(calls) < 2 or len(others) <= len(calls):
        return None
    ways = {(call.op, case.frames_or_line(rank, call)) for rank, call in calls.items()}
    if len(ways) != 1 or not all(_is_new(case, rank) for rank in calls):
        return None
    ((_, way),) = ways
    if any(announced.was_told(case, rank) for rank in members):
        return None  # they are where they were told to be, or should be
    for rank in others:
        waiting = [waited_for(case, one) for one in case.standings[rank].waiting]
        if any(
            one is None or not _is_within(case, case.frames_or_line(rank, one), way)
            for one in waiting
        ):
            return None
        if way in stacks_of(case, rank):
            return None
        if not waiting or not kept_round(case, rank):
            return None
        if not {*calls} & {*waitgraph.reachable(case.graph, rank)}:
            return None
    ranks = tuple(calls)
    return Newcomers(ranks, calls[ranks[0]], others)


def _is_within(case: Case, waiting: Sequence[str], row: Sequence[str]) -> bool:
    """Whether each loop around a call is around a collective as well, by their frames."""
    loops = case.loops(waiting)
    return bool(loops) and {*loops} <= {*case.loops(row)}


def _is_new(case: Case, rank: int) -> bool:
    """Whether a rank is in a call that it never made before."""
    program = program_of(case, rank)
    return program is not None and program.ends_anew
