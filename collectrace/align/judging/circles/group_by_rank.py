"""A rank that alone, by its rank, came to a collective of a group to which nobody else ever came.

As rank 0 that gathers the parts of its own group, to write them down, while the rest of that group
is in the barrier behind, which waits for rank 0.
"""

from __future__ import annotations

from typing import NamedTuple

from collectrace.align.judging.by_rank import frames_of, is_past, is_under
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.candidates import along_circle, waited_for
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.own_round import program_of
from collectrace.align.ranks.waitgraph import Edge
from collectrace.align.reading import chains, code_lines, statements
from collectrace.align.reading.rank_tests import lets_by_rank
from collectrace.records import Call


class GroupByRank(NamedTuple):
    """Who is in a collective to which the others of its group cannot come."""

    rank: int
    passed: tuple[int, ...]
    """The others of that group, which all wait in the other collective."""
    call: Call
    awaited: Call
    """The other collective, as the first of those has called it."""
    site: str
    """``path:line`` of what stands under the condition: of the call, or of a caller."""
    line: str
    """The condition, which asks for the rank, as ``number text``."""


@once
def group_by_rank(case: Case, candidate: Candidate) -> GroupByRank | None:
    """The one of a circle of two collectives that a condition on its rank led into one; else None.

    Not where anybody, or itself, has ever been under the condition before; or where the others are
    in another arm of it, or may have come to their collective without passing it.
    """
    return along_circle(case, candidate, _of_edges) if len(candidate.cycle) == 2 else None


def _of_edges(case: Case, edge: Edge, after: Edge) -> GroupByRank | None:
    rank, stream, place = edge.waiting.rank, edge.waiting.stream, after.waiting.stream
    call, awaited = waited_for(case, edge.waiting), waited_for(case, after.waiting)
    program = program_of(case, rank)
    if stream is None or place is None or call is None or awaited is None or program is None:
        return None
    passed = tuple(one for one in case.comparison.groups[stream.group].ranks if one != rank)
    row = place, after.waiting.seq
    if not passed or any(
        row not in [(w.stream, w.seq) for w in case.standings[one].waiting] for one in passed
    ):
        return None
    mine, theirs = case.stack(rank, call), case.stack(after.waiting.rank, awaited)
    around = {line for _, line in case.branches(theirs)}
    under = (
        (site, line)
        for site, (file, line) in case.branches(mine)
        if (file, line) not in around and _asks_for(case, site, line, rank)
    )
    site, line = next(under, ("", ""))
    if not site or not is_past(case, mine, theirs) or not program.ends_anew:
        return None
    if _was_under(case, (chains.split(site)[0], line), rank, after):
        return None
    return GroupByRank(rank, passed, call, awaited, site, line)


def _asks_for(case: Case, site: str, line: str, rank: int) -> bool:
    """Whether a condition lets a rank through by its rank, and has no other arm."""
    spelled = case.spelled_out(site, line)
    return (
        statements.tells_ranks_apart(spelled)
        and lets_by_rank(spelled, is_guard=False)
        and not case.keeps_out(site, line, (rank,))
        and not code_lines.is_fork(case.code, site, line)
    )


def _was_under(case: Case, line: tuple[str, str], rank: int, after: Edge) -> bool:
    """Whether another rank has ever been under a condition; True where that is not known."""
    for one in case.comparison.groups[after.waiting.group].ranks:
        log = case.log(one)
        if log is None or program_of(case, one) is None:
            return True
        if one != rank and any(is_under(case, frame, line) for frame in frames_of(log)):
            return True
    return False
