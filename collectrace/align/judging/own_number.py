"""Roots that ranks may have computed from their own number, so that no majority counts."""

from __future__ import annotations

from typing import Final

from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.matching.comparison import Divergence
from collectrace.signature import is_user

_LOOK_BACK: Final = 200
"""Earlier calls in which another root of the same line is searched."""


@once
def by_own_number(case: Case, candidate: Candidate) -> bool:
    """Whether the roots of a call fit one rule that all ranks follow.

    Every rank names itself. Or it names the first rank that is not itself, as
    ZeroRedundancyOptimizer does when each rank consolidates to itself: it broadcasts from all ranks
    but that one, in order. If user code named another root at that line before, there is no such
    rule.
    """
    source = candidate.source
    if candidate.what != "root_mismatch" or not isinstance(source, Divergence):
        return False
    calls = {rank: call for rank, call in source.calls.items() if call is not None}
    ranks = source.group.ranks
    if len(calls) < len(ranks) or len(ranks) < 2:
        return False
    if all(call.root == rank for rank, call in calls.items()):
        return True
    others = {rank: ranks[1] if rank == ranks[0] else ranks[0] for rank in ranks}
    if any(call.root != others[rank] for rank, call in calls.items()):
        return False
    return not any(
        earlier is not None
        and (earlier.op, earlier.site) == (call.op, call.site)
        and earlier.root != others[rank]
        for rank, call in calls.items()
        if is_user(call)
        for earlier in case.before(rank, source.stream, source.seq, _LOOK_BACK)
    )
