"""Process groups that some ranks left out, or made one more of, by what was asked for next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from collectrace import words
from collectrace.align.diagnosis import loop_lines, ways_past
from collectrace.align.diagnosis.callers import inside
from collectrace.align.diagnosis.ways_past import WayPast
from collectrace.align.diagnosis.wording import Reason, quoted
from collectrace.align.judging import intervals
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.reading import chains, statements
from collectrace.align.reading.evidence import GroupConflict, StreamKey
from collectrace.records import Call, Group

MOST_MEMBERS: Final = 4
"""Members of a group that are listed as they were passed."""

_Asked = tuple[Sequence[int], Group]
"""Ranks, and the group that all of them asked for."""


def sentence(case: Case, candidate: Candidate, source: GroupConflict) -> str:
    """That the suspects left out a group, or made one more: a sentence after a space, or nothing.

    They asked here for what the others asked for next, or the others for what they did.
    """
    asked = [(ranks, group) for ranks, group in source.variants if group is not None]
    if len(asked) != len(source.variants) or len(asked) != 2:
        return ""
    if not candidate.suspects:
        return _went_past(case, asked)
    wrong, right = sorted(asked, key=lambda one: not set(one[0]) <= set(candidate.suspects))
    if set(wrong[0]) != set(candidate.suspects):
        return ""
    who, others = words.ranks(wrong[0]), words.ranks(right[0])
    if _asked_later(case, right, wrong[1]) and not _ever_asked(case, wrong, right[1]):
        left = words.verb(wrong[0], "has", "have")
        return (
            f" {words.upper(who)} never called {call(right[1])}{words.at_site(right[1].site)}, "
            f"and {left} gone on to what {others} called after it."
        )
    if _asked_later(case, wrong, right[1]) and not _ever_asked(case, right, wrong[1]):
        return (
            f" {words.upper(who)} alone called {call(wrong[1])}{words.at_site(wrong[1].site)}, "
            f"and after it what {others} called here."
        )
    return ""


def _went_past(case: Case, asked: Sequence[_Asked]) -> str:
    """That some made a group that others left out, where nobody outnumbers the other side."""
    for some, others in (asked, asked[::-1]):
        if not _asked_later(case, some, others[1]) or _ever_asked(case, others, some[1]):
            continue
        who = words.ranks(others[0])
        no_members = "" if set(others[0]) & set(some[1].ranks) else ", no members of it,"
        return (
            f" {words.upper(words.ranks(some[0]))} called {call(some[1])}"
            f"{words.at_site(some[1].site)}, and {call(others[1])} after it; {who}{no_members} "
            f"never called the first, and went straight to {call(others[1])}"
            f"{words.at_site(others[1].site)}."
        )
    return ""


def one_more(case: Case, source: GroupConflict) -> str:
    """Where ranks made one group more than those that made none: a sentence after a space.

    The first at which the sides asked at different lines, if from there on what these asked for is
    what the others asked for next. Nothing where that is not so, or they never asked alike before.
    """
    sides = {group is None: ranks for ranks, group in source.variants}
    if len(source.variants) != len(sides) or len(sides) != _SIDES or source.instead:
        return ""
    made = {rank: _by_ordinal(case, rank) for ranks in sides.values() for rank in ranks}
    absent, present = ([made[rank] for rank in sides[is_none]] for is_none in (True, False))
    fewer, more = absent[0], present[0]
    if any(one != fewer for one in absent) or any(one != more for one in present):
        return ""
    numbers = range(1, source.seq)
    first = next((n for n in numbers if fewer.get(n) != more.get(n)), source.seq)
    if not 1 < first < source.seq or first not in fewer:
        return ""
    if any(fewer.get(n) != more.get(n + 1) for n in range(first, source.seq)):
        return ""
    (here, *_), (there, *_) = more[first], fewer[first]
    who, others = words.ranks(sides[False]), words.ranks(sides[True])
    return (
        f" They parted before, at the {words.ordinal(first)} group, for which {who} asked"
        f"{words.at_site(chains.site(here))}{inside(here)} and {others}"
        f"{words.at_site(chains.site(there))}{inside(there)}: {who} made one more there, and has "
        "been one ahead since."
    )


_SIDES: Final = 2


def _by_ordinal(case: Case, rank: int) -> dict[int, tuple[str, ...]]:
    """By which lines a rank asked for each of its groups, innermost first."""
    log = case.log(rank)
    asked = [] if log is None else [one for one in log.groups if one.phase == "asked"]
    stacks = ((one.ordinal, tuple(case.stack(rank, one))) for one in asked)
    return {ordinal: stack for ordinal, stack in stacks if stack}


def ways(case: Case, absent: Sequence[int], asked: _Asked) -> Reason:
    """What may have led ranks past the creation of a group; empty: nothing is seen.

    By what stands around and before it, in the functions that they are not in: after a space. All
    of them must have issued their last call from one line: of others it would be a guess.
    """
    ranks, group = asked
    stack = case.stack(ranks[0], group)
    calls = [(rank, case.standings[rank].last_call) for rank in absent]
    last = {case.stack(rank, made) for rank, made in calls if made is not None}
    if len(last) != 1:
        return Reason("", "")
    is_ahead = all(_is_ahead(case, ranks[0], rank, made) for rank, made in calls)
    return _past(case, group, stack, last.pop(), absent, is_ahead=is_ahead)


def _is_ahead(case: Case, rank: int, other: int, made: Call | None) -> bool:
    """Whether another has issued a rank's latest collective once more since, in a loop.

    By the very lines: it has come through the turn in which the rank still is.
    """
    log = case.log(rank)
    if log is None or made is None or made.peer is not None:
        return False
    stream = StreamKey(made.group, made.device)
    last = case.call(rank, stream, log.last_seq.get(stream, 0))
    stack = case.stack(other, made)
    return (
        last is not None
        and last.seq + 1 == made.seq
        and case.stack(rank, last) == stack
        and bool(case.loops(stack))
    )


def ways_between(case: Case, source: GroupConflict) -> Reason:
    """The same of a group that one side went past, to what the other asked for next."""
    asked = [(ranks, group) for ranks, group in source.variants if group is not None]
    if len(asked) != len(source.variants) or len(asked) != _SIDES:
        return Reason("", "")
    for (ranks, group), (others, then) in (asked, asked[::-1]):
        has_gone_on = _asked_later(case, (ranks, group), then)
        if has_gone_on and not _ever_asked(case, (others, then), group):
            stacks = case.stack(ranks[0], group), case.stack(others[0], then)
            if stacks[0] == stacks[1]:
                return _past_a_turn(case, group, stacks[0], others)
            return _past(case, group, *stacks, others)
    # They are held up in what they asked for: who is further on in one function is past the other.
    further = (
        _past(case, group, case.stack(ranks[0], group), case.stack(others[0], then), others)
        for (ranks, group), (others, then) in (asked, asked[::-1])
    )
    return next((one for one in further if one.cause), Reason("", ""))


def _past(
    case: Case,
    group: Group,
    stack: Sequence[str],
    there: Sequence[str],
    who: Sequence[int],
    *,
    is_ahead: bool = False,
) -> Reason:
    """What may have led ranks past a group that is asked for in ``stack``, who are ``there``.

    ``is_ahead``: they are, by their calls, be it in a later turn of a loop.
    """
    if not stack or not there:
        return Reason("", "")
    apart = stack[: len(stack) - chains.shared(stack, there)]
    here, other = chains.outermost_apart(stack, there)
    if not here or chains.scope(here) != chains.scope(other):
        return Reason("", "")
    if chains.line(other) < chains.line(here) and not is_ahead:
        return Reason("", "")  # they have not come to it yet, as far as is seen
    # What leads out of the function in which they part does not lead to where they are in it.
    found = ways_past.few(case, apart[:-1])
    shared = statements.branches(case.statements(chains.site(other)))
    around = [
        quoted(file, line)
        for site, (file, line) in case.branches(apart)
        if site != chains.site(here) or line not in shared
        if not intervals.is_by_turns(case, site, line)
    ]
    return _by(group, found, around, who)


def _past_a_turn(case: Case, group: Group, stack: Sequence[str], who: Sequence[int]) -> Reason:
    """What may have led ranks past the turn of a loop in which others ask for a group."""
    loop = loop_lines.innermost_loop(case, stack)
    if loop is None:
        return Reason("", "")
    inner = stack[: stack.index(loop.frame)]
    found = [*ways_past.few(case, inner), *ways_past.past_a_turn(case, loop.frame)]
    within = loop_lines.inside(case, loop.frame, loop) or []
    around = [
        *(quoted(file, line) for _, (file, line) in case.branches(inner)),
        *(quoted(loop.file, line) for line in statements.branches(within)),
    ]
    return _by(group, found, around, who)


def _by(
    group: Group, found: Sequence[WayPast], around: Sequence[str], who: Sequence[int]
) -> Reason:
    """The words about ways past a group and conditions around it; empty: none, or too many."""
    if len(found) + len(around) > ways_past.MOST:
        return Reason("", "")
    stands = f" The call of {call(group)} stands under {words.listed(around)}." if around else ""
    before = " or ".join(dict.fromkeys(way.quoted for way in found))
    fix = f" Make it before {before}, where every rank comes to it." if found else ""
    if around:
        fix += f" Make it outside of {' and '.join(around)}, or let every rank find the same there."
    return Reason(f"{stands}{ways_past.led(found, words.ranks(who))}", fix)


def _asked_later(case: Case, asked: _Asked, group: Group) -> bool:
    """Whether ranks asked for another group after theirs, from the same line as its ranks did."""
    ranks, first = asked
    return all(
        any(_is_same(one, group) and one.ordinal > first.ordinal for one in log.groups)
        for rank in ranks
        if (log := case.log(rank)) is not None
    )


def _ever_asked(case: Case, asked: _Asked, group: Group) -> bool:
    logs = (case.log(rank) for rank in asked[0])
    return any(_is_same(one, group) for log in logs if log is not None for one in log.groups)


def _is_same(one: Group, other: Group) -> bool:
    return (one.site, one.ranks, one.description) == (other.site, other.ranks, other.description)


def call(group: Group) -> str:
    """``new_group([0, 1])``; of many members as ranges."""
    few = len(group.ranks) <= MOST_MEMBERS
    members = ", ".join(map(str, group.ranks)) if few else words.ranges(group.ranks)
    return f"new_group([{members}])" if group.ranks else "new_group()"
