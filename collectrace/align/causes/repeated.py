"""Other groups or messages that show the same error, from the same lines."""

from __future__ import annotations

from typing import Final

from collectrace import words as words_
from collectrace.align.causes.situation import Situation
from collectrace.align.judging import sisters
from collectrace.align.judging.candidate import Candidate
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.align.matching.dimensions import NAMELESS

_MOST: Final = 8
"""Groups or pairs that are listed by their ranks."""


def is_repeat(situation: Situation) -> bool:
    """Whether a finding is the same error as its cause, in another group or message."""
    cause = situation.candidate.cause
    return cause is not None and sisters.repeats(situation.case, cause, situation.candidate)


def suffix(situation: Situation) -> str:
    """Return ``, in 3 of 3 groups of mesh_tp`` or ``(and 2 more alike)``; empty if not repeated."""
    group, again = situation.candidate.group, situation.again
    if group is None or not again:
        return ""
    if not _are_groups(situation):
        return f" (and {len(again)} more alike)"
    total = len(sisters.groups_of_dimension(situation.case, group))
    label = group.description
    of = f"groups of {label}" if label not in NAMELESS else "such groups"
    return f", in {len(again) + 1} of {total} {of}"


def note(situation: Situation) -> tuple[str, ...]:
    """Return a sentence on the other ranks with the same error; empty if there are none."""
    if not situation.again or situation.candidate.group is None:
        return ()
    names = sorted({_ranks(one, is_group=_are_groups(situation)) for one in situation.again})
    rest = len(names) - _MOST
    named = [words_.ranks(ranks) for ranks in names[:_MOST]]
    named += [words_.counted(rest, "more")] if rest > 0 else []
    where = "in the groups of" if _are_groups(situation) else "between"
    return (f"The same error, from the same lines, {where} {words_.listed(named)}.",)


def _ranks(one: Candidate, *, is_group: bool) -> tuple[int, ...]:
    if isinstance(one.source, ChannelIssue):
        return one.source.channel.source, one.source.channel.destination
    return one.group.ranks if is_group and one.group is not None else one.ranks


def _are_groups(situation: Situation) -> bool:
    """Whether it repeats in other groups, and not in other messages or cycles."""
    own = situation.candidate
    return own.group is not None and all(
        not isinstance(one.source, ChannelIssue)
        and one.group is not None
        and one.group.name != own.group.name
        for one in situation.again
    )
