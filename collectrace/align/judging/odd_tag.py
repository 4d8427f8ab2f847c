"""The one rank whose message bears another tag than those of all others from the same lines."""

from __future__ import annotations

from typing import NamedTuple

from collectrace.align.judging import announced
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.matching import habit, programs
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.findings import GroupInfo
from collectrace.records import Call


class OddTag(NamedTuple):
    """Whose tag alone is another."""

    rank: int
    tag: int
    usual: int
    """That of all others, in their message of the same number from the same lines."""
    others: tuple[int, ...]
    """Those; not the other end, which names the usual one as well."""


class _Tagged(NamedTuple):
    """A rank's end of a message."""

    tag: int
    seq: int


@once
def odd_tag(case: Case, candidate: Candidate) -> OddTag | None:
    """Which of two that name one message by two tags is alone in it; None: that is not known.

    All have passed one and the same each time before: so it is the tag of a step, and of no rank.
    Nobody is blamed where one of them was ever told of something: it may have been the tag.
    """
    issue = candidate.source
    if not isinstance(issue, ChannelIssue) or issue.recv is None or issue.near is None:
        return None
    near, group = issue.near, issue.group
    if near.differs != "tag" or near.send is None or issue.channel.source < 0:
        return None
    sender, receiver = near.channel.source, issue.channel.destination
    found = [
        odd
        for odd in (
            _alone(case, group, sender, near.send, receiver, issue.channel.tag),
            _alone(case, group, receiver, issue.recv, sender, near.channel.tag),
        )
        if odd is not None
    ]
    if len(found) != 1:
        return None
    if any(announced.was_told(case, one) for one in {sender, receiver, *found[0].others}):
        return None
    if announced.may_be_by_store(case):
        return None
    return found[0]


def _alone(
    case: Case, group: GroupInfo, rank: int, call: Call, peer: int, usual: int
) -> OddTag | None:
    """Whether all others passed the tag of the other end in their message of the same number."""
    mine = _made(case, rank, rank, call)
    n = next((n for n, one in enumerate(mine) if one == (call.tag or 0, call.seq)), None)
    if n is None or n < habit.ENOUGH:
        return None
    rows = {
        other: made
        for other in group.ranks
        if other not in (rank, peer) and len(made := _made(case, other, rank, call)) > n
    }
    if not rows or any(made[n].tag != usual for made in rows.values()):
        return None
    before = {tuple(one.tag for one in made[:n]) for made in (mine, *rows.values())}
    if len(before) != 1:
        return None
    return OddTag(rank, call.tag or 0, usual, tuple(sorted(rows)))


def _made(case: Case, rank: int, whose: int, call: Call) -> list[_Tagged]:
    """A rank's messages from the lines of another's call, in their order."""
    log, place = case.log(rank), (call.op, case.stack(whose, call))
    if log is None or not programs.is_whole(log):
        return []
    found = []
    for channel in log.last_channel_seq:
        if channel.group != call.group:
            continue
        rows = log.channel_rows(channel)
        known = rows.vocabulary.appearances
        found += [
            (offset, _Tagged(channel.tag, seq))
            for offset, seq, n in zip(rows.offset, rows.seq, rows.appearance, strict=True)
            if known[n].place == place
        ]
    return [one for _, one in sorted(found)]
