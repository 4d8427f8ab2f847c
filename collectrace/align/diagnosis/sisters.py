"""One error in many groups of one dimension: told once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Final

from collectrace import words
from collectrace.align.diagnosis.wording import FOLLOWS, Reason
from collectrace.align.judging import sisters
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.align.matching.dimensions import NAMELESS


def is_repeat(case: Case, candidate: Candidate) -> bool:
    """Whether it is the error of another group, which it is put down to, once more."""
    cause = candidate.cause
    return cause is not None and sisters.repeats(case, cause, candidate)


def reason(case: Case, candidate: Candidate) -> Reason | None:
    """The error of another group, or of another message, once more."""
    cause = candidate.cause
    if cause is None or not is_repeat(case, candidate):
        return None
    if isinstance(cause.source, ChannelIssue):
        return Reason("It is the same error as told above, of another message.", FOLLOWS)
    if not _is_of_groups(cause, candidate):
        return Reason("It is the same error as told above, of other ranks.", FOLLOWS)
    return Reason(f"It is the same error as in {_group(cause)}, in another group.", FOLLOWS)


def deciding(case: Case, candidate: Candidate) -> str:
    """That other groups of the dimension told who is right: a sentence after a space, or none."""
    size = len(candidate.group.ranks) if candidate.group is not None else 0
    if candidate.group is None or not candidate.suspects or candidate.cause is not None:
        return ""
    sides = [side for side in candidate.sides if side.call is not None]
    if any(2 * len(side.ranks) > size for side in sides):
        return ""
    unlike = sisters.unlike_in_sizes(case, candidate)
    right = sisters.decide(case, candidate, sides) if not unlike else None
    wrong = {rank for side in sides if side is not right for rank in side.ranks}
    if unlike != candidate.suspects and (right is None or wrong != set(candidate.suspects)):
        return ""
    others = [rank for info in sisters.of(case, candidate.group) for rank in info.ranks]
    who = words.ranks(rank for rank in others if rank not in candidate.group.ranks)
    alike = [rank for rank in candidate.group.ranks if rank not in unlike]
    return (
        f" In {_group(candidate)} there is no majority; {who}, in another group of its kind, did "
        f"there what {words.ranks(right.ranks if right is not None else alike)} did here."
    )


def also(case: Case, candidate: Candidate, judged: Sequence[Candidate]) -> str:
    """``, in 3 of 3 groups of mesh_tp``, for a headline; empty where one group alone has it.

    Of messages `` (and 2 more alike)``.
    """
    again = _again(case, candidate, judged)
    if candidate.group is None or not again:
        return ""
    if not _are_groups(again):
        return f" (and {len(again)} more alike)"
    total = len(sisters.of(case, candidate.group))
    label = candidate.group.description
    of = f"groups of {label}" if label not in NAMELESS else "such groups"
    return f", in {len(again) + 1} of {total} {of}"


def note(case: Case, candidate: Candidate, judged: Sequence[Candidate]) -> str:
    """``The other groups: ranks 2-3 and ranks 4-5.``; empty where one group alone has it."""
    found = _again(case, candidate, judged)
    again, of_groups = sorted(found.values()), _are_groups(found)
    if not again:
        return ""
    rest = len(again) - _MOST_NAMED
    named = [words.ranks(ranks) for ranks in again[:_MOST_NAMED]]
    named += [words.counted(rest, "more group" if of_groups else "more pair")] if rest > 0 else []
    where = "in the groups of" if of_groups else "between"
    return f"The same error, from the same lines, {where} {words.listed(named)}."


_MOST_NAMED: Final = 8
"""Groups, or pairs, that are named by their ranks."""


def _again(
    case: Case, candidate: Candidate, judged: Sequence[Candidate]
) -> dict[Hashable, tuple[int, ...]]:
    """The other groups that have the same error, by name, with their ranks; or pairs, circles."""
    if candidate.group is None or candidate.cause is not None:
        return {}
    found: dict[Hashable, tuple[int, ...]] = {}
    for one in judged:
        if one.cause is not candidate or not sisters.repeats(case, candidate, one):
            continue
        if isinstance(one.source, ChannelIssue):
            found[one.source.channel] = one.source.channel.source, one.source.channel.destination
        elif one.group is not None and _is_of_groups(candidate, one):
            found[one.group.name] = one.group.ranks
        else:
            found[one.ranks] = one.ranks
    return found


def _are_groups(again: Iterable[Hashable]) -> bool:
    """Whether what :func:`_again` found are groups, and no channels or circles."""
    return all(isinstance(name, str) for name in again)


def _is_of_groups(one: Candidate, other: Candidate) -> bool:
    """Whether two that are one error are of two groups, and not of some ranks of one."""
    return one.group is None or other.group is None or one.group.name != other.group.name


def _group(candidate: Candidate) -> str:
    return words.group(candidate.group) if candidate.group is not None else "a group"
