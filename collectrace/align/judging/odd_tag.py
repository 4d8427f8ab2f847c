"""The one rank whose message bears another tag than those of all others from the same lines."""

from __future__ import annotations

from typing import NamedTuple

from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.matching import programs
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.align.matching.deviations import CAN_OUTVOTE
from collectrace.records import Call


class OddTag(NamedTuple):
    """Whose tag alone is another."""

    rank: int
    tag: int
    usual: int
    """That of all others, in their message of the same number from the same lines."""
    others: tuple[int, ...]
    """All but the two that exchange it which were there as often; at least two."""


@once
def odd_tag(case: Case, candidate: Candidate) -> OddTag | None:
    """Which of two that name one message by two tags is alone in it; None: that is not known."""
    issue = candidate.source
    if not isinstance(issue, ChannelIssue) or issue.recv is None or issue.near is None:
        return None
    near = issue.near
    if near.differs != "tag" or near.send is None or issue.channel.source < 0:
        return None
    ends = (near.channel.source, near.send), (issue.channel.destination, issue.recv)
    tags = near.channel.tag, issue.channel.tag
    votes = [
        _others(case, issue.group.ranks, rank, call, {one for one, _ in ends})
        for rank, call in ends
    ]
    seen = {tag for found in votes for tag in found.values()}
    others = {rank for found in votes for rank in found}
    if len(seen) != 1 or len(others) < CAN_OUTVOTE - 1 or not all(votes):
        return None
    (usual,) = seen
    if usual not in tags:
        return None
    odd = 1 if usual == tags[0] else 0
    return OddTag(ends[odd][0], tags[odd], usual, tuple(sorted(others)))


def _others(
    case: Case, ranks: tuple[int, ...], rank: int, call: Call, ends: set[int]
) -> dict[int, int]:
    """The tags of the others' messages of the same number from the lines of a call, by rank."""
    frames = case.stack(rank, call)
    mine = _tags(case, rank, frames, call.op)
    found = {}
    n = next((n for n, (_, seq) in enumerate(mine) if seq == (call.tag or 0, call.seq)), None)
    for other in ranks:
        theirs = _tags(case, other, frames, call.op) if other not in ends else []
        if n is not None and n < len(theirs):
            found[other] = theirs[n][1][0]
    return found


def _tags(
    case: Case, rank: int, frames: tuple[str, ...], op: str
) -> list[tuple[int, tuple[int, int]]]:
    """A rank's messages of one op from some lines, in their order: offset; tag and number."""
    log = case.log(rank)
    if log is None or not programs.is_whole(log):
        return []
    found = []
    for channel in log.last_channel_seq:
        rows = log.channel_rows(channel)
        known = rows.vocabulary.appearances
        found += [
            (offset, (channel.tag, seq))
            for offset, seq, n in zip(rows.offset, rows.seq, rows.appearance, strict=True)
            if known[n].place == (op, frames)
        ]
    return sorted(found)
