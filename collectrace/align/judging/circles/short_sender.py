"""A rank that sent less than its like to one that receives from any rank."""

from __future__ import annotations

from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.own_round import LeftRound, left_own_round
from collectrace.align.matching.deviations import CAN_OUTVOTE


@once
def short_sender(case: Case, candidate: Candidate) -> LeftRound | None:
    """The one rank of all that left its own round, and sent less than its like to who waits for it.

    In a circle that ends at a receive from any rank, to which at least three ranks have sent, and
    all others equally often. Of two it is not known how many each was to send.
    """
    group = candidate.group
    if group is None:
        return None
    awaited = [
        c for edge in candidate.cycle if (c := edge.waiting.channel) is not None and c.source < 0
    ]
    if not awaited:
        return None
    left = [found for rank in group.ranks if (found := left_own_round(case, rank)) is not None]
    if len(left) != 1 or not all(case.standings[rank].waiting for rank in group.ranks):
        return None
    for channel in awaited:
        ways = case.sent_to_any(channel)
        sent = {rank: case.evidence.logs[rank].last_channel_seq[ways[rank]] for rank in ways}
        mine = sent.pop(left[0].rank, 0)
        if len(sent) + 1 < CAN_OUTVOTE or len(set(sent.values())) > 1:
            continue
        if mine < max(sent.values()):
            return left[0]
    return None
