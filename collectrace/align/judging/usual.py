"""What each time followed a line of a rank's own, whatever its tensors: the way it usually goes."""

from __future__ import annotations

from itertools import pairwise

from collectrace.align.judging.case import Case
from collectrace.align.matching.habit import ENOUGH
from collectrace.align.reading.evidence import StreamKey
from collectrace.records import Call


def after_its_last(case: Case, rank: int, stream: StreamKey, seq: int) -> Call | None:
    """The call that a rank made each time after the line of its latest one; None: not known.

    ``seq``: where it would have been. The latest call from that line.
    """
    *before, last = case.before(rank, stream, seq) or [None]
    if last is None:
        return None
    line = case.stack(rank, last)
    found = [
        two
        for one, two in pairwise([*before, last])
        if one is not None and two is not None and case.stack(rank, one) == line
    ]
    if len(found) < ENOUGH or len({case.stack(rank, call) for call in found}) > 1:
        return None
    return found[-1]


def goes_on(case: Case, rank: int, stream: StreamKey, call: Call) -> bool:
    """Whether a rank comes to a call as it did each time from the line of its call before."""
    usual = after_its_last(case, rank, stream, call.seq)
    return usual is not None and case.stack(rank, usual) == case.stack(rank, call)
