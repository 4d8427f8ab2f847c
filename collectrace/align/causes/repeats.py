"""One error in many groups of one dimension, or of several messages: it is told once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Final

from collectrace import words
from collectrace.align.judging import sisters
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.align.matching.dimensions import NAMELESS

_MOST_NAMED: Final = 8
"""Groups, or pairs, that are named by their ranks."""


def is_repeat(case: Case, candidate: Candidate) -> bool:
    """Return whether a candidate is the error of another group, to which it is put down."""
    cause = candidate.cause
    return cause is not None and sisters.repeats(case, cause, candidate)


def also(case: Case, candidate: Candidate, judged: Sequence[Candidate]) -> str:
    """Return ``, in 3 of 3 groups of mesh_tp``, for a headline; empty: one group alone has it.

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
    """Return which other groups have the same error; empty: one group alone has it."""
    found = _again(case, candidate, judged)
    again, of_groups = sorted(found.values()), _are_groups(found)
    if not again:
        return ""
    rest = len(again) - _MOST_NAMED
    named = [words.ranks(ranks) for ranks in again[:_MOST_NAMED]]
    named += [words.counted(rest, "more group" if of_groups else "more pair")] if rest > 0 else []
    where = "in the groups of" if of_groups else "between"
    return f"The same error, from the same lines, {where} {words.listed(named)}."


def _again(
    case: Case, candidate: Candidate, judged: Sequence[Candidate]
) -> dict[Hashable, tuple[int, ...]]:
    """Return the other groups that have the same error, by name; or pairs of ranks, or circles."""
    if candidate.group is None or candidate.cause is not None:
        return {}
    found: dict[Hashable, tuple[int, ...]] = {}
    for one in judged:
        if one.cause is not candidate or not sisters.repeats(case, candidate, one):
            continue
        if isinstance(one.source, ChannelIssue):
            found[one.source.channel] = one.source.channel.source, one.source.channel.destination
        elif one.group is not None and one.group.name != candidate.group.name:
            found[one.group.name] = one.group.ranks
        else:
            found[one.ranks] = one.ranks
    return found


def _are_groups(again: Iterable[Hashable]) -> bool:
    """Return whether what was found are groups, and no channels or circles."""
    return all(isinstance(name, str) for name in again)
