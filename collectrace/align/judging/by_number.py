"""Find messages with ends that name each other by group rank, not by global rank.

If several messages of a group do so from the same lines, such as in a ring, all their ranks made
the same error. If a named rank raised, or waits for one that raised, the message may be correct.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from collectrace.align.judging.candidate import Candidate
from collectrace.align.matching.comparison import ChannelIssue


def named_by_number(issue: ChannelIssue) -> tuple[int, ...]:
    """Return the two ranks that named each other so; empty unless both did."""
    near = issue.near
    if near is None or near.differs != "numbering":
        return ()
    return tuple(sorted((near.channel.source, issue.channel.destination)))


def named_alike(found: Sequence[Candidate]) -> Mapping[Candidate, tuple[int, ...]]:
    """Return all ranks that named their peers by group rank from the same lines.

    The result has an entry for each candidate about two of them.
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
    """Whether a candidate is about such a message."""
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
