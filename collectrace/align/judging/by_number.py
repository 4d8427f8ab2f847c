"""Messages whose two ends name each other by their numbers in a group, where ranks are asked for.

Where several of one place do, as all messages of a ring, it is one error of all their ranks. Where
a rank that is named raised, or is held up by one that did, it may have been meant all the same.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from collectrace.align.judging.candidate import Candidate
from collectrace.align.matching.comparison import ChannelIssue


def named_by_number(issue: ChannelIssue) -> tuple[int, ...]:
    """The two ranks that named each other so; none: they did not, or only one of them did."""
    near = issue.near
    if near is None or near.differs != "numbering":
        return ()
    return tuple(sorted((near.channel.source, issue.channel.destination)))


def named_alike(found: Sequence[Candidate]) -> Mapping[Candidate, tuple[int, ...]]:
    """All who named their peers by their numbers in one group, from the same lines.

    Of each candidate that is about two of them.
    """
    by_place: dict[Hashable, list[Candidate]] = {}
    for candidate in found:
        place = _place(candidate)
        if place is not None:
            by_place.setdefault(place, []).append(candidate)
    return {
        candidate: tuple(sorted({rank for one in those for rank in one.suspects}))
        for those in by_place.values()
        for candidate in those
        if len(those) > 1
    }


def is_of_numbers(candidate: Candidate) -> bool:
    """Whether it is about such a message."""
    return _place(candidate) is not None


def _place(candidate: Candidate) -> Hashable | None:
    issue = candidate.source
    if not isinstance(issue, ChannelIssue) or issue.near is None:
        return None
    named = named_by_number(issue)
    if not named or not {*named} <= {*candidate.suspects}:
        return None
    sites = (call.site for call in (issue.near.send, issue.recv) if call is not None)
    group = issue.near.numbered
    return (group.ranks if group is not None else (), *sites)
