"""The error of another group, or of another message, once more.

What it means
    Groups of one dimension run the same lines. So one error in a line shows in each of them, such
    as in every pair of a mesh. It is reported once in full; the others refer to it.

Example
    ::

        dist.all_reduce(x, op=SUM if first else MAX, group=pair)   # in each pair

Not to be confused with
    A consequence of another error, which is not of the same lines.

How to fix it
    Correct the first of these findings.
"""

from __future__ import annotations

from collectrace import words as words_
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.judging import sisters
from collectrace.align.judging.candidate import Candidate
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.align.matching.dimensions import NAMELESS

_MOST = 8
"""Groups, or pairs, that are named by their ranks."""


def find(situation: Situation) -> Candidate | None:
    """Return the finding that it repeats."""
    cause = situation.candidate.cause
    is_repeat = cause is not None and sisters.repeats(situation.case, cause, situation.candidate)
    return cause if is_repeat else None


def words(situation: Situation, found: Candidate) -> Words:
    """Return the words for an error once more."""
    candidate = situation.candidate
    one, other = found.group, candidate.group
    who = words_.ranks(candidate.ranks or (other.ranks if other is not None else ()))
    where = "above, of other ranks"
    if one is not None and other is not None and one.name != other.name:
        where = f"in {words_.group(one)}, in another group"
    return Words(
        f"{who} made the same error as above, at the same lines",
        (f"It is the same error as {where}.",),
        ("Correct the error above first.",),
    )


def suffix(situation: Situation) -> str:
    """Return ``, in 3 of 3 groups of mesh_tp``, ``(and 2 more alike)``; empty: it is alone."""
    group, again = situation.candidate.group, situation.again
    if group is None or not again:
        return ""
    if not _are_groups(situation):
        return f" (and {len(again)} more alike)"
    total = len(sisters.of(situation.case, group))
    label = group.description
    of = f"groups of {label}" if label not in NAMELESS else "such groups"
    return f", in {len(again) + 1} of {total} {of}"


def note(situation: Situation) -> tuple[str, ...]:
    """Return between which other ranks it is, as a sentence; empty: between no others."""
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
    """Whether it repeats in other groups, and not in other messages or cycles of its own."""
    own = situation.candidate
    return own.group is not None and all(
        not isinstance(one.source, ChannelIssue)
        and one.group is not None
        and one.group.name != own.group.name
        for one in situation.again
    )
