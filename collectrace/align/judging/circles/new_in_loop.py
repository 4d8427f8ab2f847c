"""One of two ranks that came to a collective new to both, in the loop that the other goes on in.

In a group of its own, or of the framework's, it does not meet the other's call, but each waits for
the other. Behind the loop it would prove nothing: it may be the loop that was longer, or shorter.
"""

from __future__ import annotations

from collectrace.align.judging import announced, intervals
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.one_loop import part_in_one_loop
from collectrace.align.judging.own_round import (
    LeftRound,
    kept_round,
    left_own_round,
    program_of,
    stacks_of,
)
from collectrace.align.matching import habit
from collectrace.align.matching.deviations import CAN_OUTVOTE
from collectrace.align.reading import chains


@once
def new_in_loop(case: Case, candidate: Candidate) -> LeftRound | None:
    """Who of two left its round for a line to which neither ever came; else None.

    Not where the line is come to at intervals, or numbers may have told the rank to.
    """
    cycle, group = candidate.cycle, candidate.group
    ranks = {edge.waiting.rank for edge in cycle}
    if len(ranks) != len(cycle) or group is None or len(group.ranks) >= CAN_OUTVOTE:
        return None
    if any(edge.waiting.stream is None for edge in cycle):
        return None
    found = [one for rank in ranks if (one := left_own_round(case, rank)) is not None]
    if len(found) != 1 or not all(kept_round(case, r) for r in ranks - {found[0].rank}):
        return None
    left = found[0]
    program, others = program_of(case, left.rank), ranks - {left.rank}
    if program is None or not program.ends_anew or left.rounds < habit.ENOUGH:
        return None
    if program.call(len(program.steps) - 1) != left.made or announced.was_told(case, left.rank):
        return None
    new, usual = case.stack(left.rank, left.made), case.stack(left.rank, left.usual)
    if not part_in_one_loop(case, new, usual) or intervals.decides(case, new, usual):
        return None
    line = new[-1 - chains.shared(new, usual)]
    is_alone = all(line not in stack for rank in others for stack in stacks_of(case, rank))
    return left if is_alone else None
