"""The requests for a process group about which ranks disagree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Final

from collectrace import words
from collectrace.align.causes import deciders, phrases, wait_cycle
from collectrace.align.causes.situation import Situation
from collectrace.align.judging.case import Case
from collectrace.align.reading import chains
from collectrace.align.reading.evidence import GroupConflict
from collectrace.align.reading.groups import is_local
from collectrace.findings import Decision
from collectrace.records import Group

Asked = tuple[tuple[int, ...], Group]
"""Ranks, and the group that they requested."""

_FAR: Final = 99
"""Distance of a function that is not on the stack of a request."""

_MOST: Final = 3
"""Different requests that a headline names."""


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests of ranks that disagree about one group."""

    asked: tuple[Asked, ...]
    """Which ranks requested which group, suspects first."""
    none: tuple[int, ...]
    """Ranks that requested no further group."""
    skipped: tuple[Asked, ...]
    """Ranks that never requested a group that others requested here."""
    is_local: bool
    """Whether only the members of the group create it."""
    own: bool
    """Whether each rank created only groups that it is in."""

    @property
    def site(self) -> str | None:
        """The line of all requests; None if there are several."""
        sites = {group.site for _, group in self.asked}
        return sites.pop() if len(sites) == 1 else None


def requests(situation: Situation) -> Requests | None:
    """Return what ranks requested; None if the finding is not about creating a group."""
    source = situation.candidate.source
    if not isinstance(source, GroupConflict):
        return None
    asked = [(ranks, group) for ranks, group in source.variants if group is not None]
    instead = {rank for ranks, _ in source.instead for rank in ranks}
    absent = {rank for ranks, group in source.variants if group is None for rank in ranks}
    here = (*asked, *source.instead)
    ordered = sorted(here, key=lambda one: not {*one[0]} <= {*situation.suspects})
    none = tuple(sorted(absent - instead))
    skipped = [(none, group) for _, group in asked[:1] if none]
    for one, other in permutations(ordered, 2):
        if _can_skip(situation, (one, other)) and _later(situation.case, one[0], *other):
            skipped.append((one[0], other[1]))
    return Requests(tuple(ordered), none, tuple(skipped), is_local(source.name), source.own)


def _can_skip(situation: Situation, asked: Sequence[Asked]) -> bool:
    """Whether ranks may have skipped a request, instead of computing other members for it."""
    stacks = {situation.case.stack(ranks[0], group) for ranks, group in asked}
    forms = {deciders.form(one) for one in situation.decisions}
    return len(stacks) > 1 or "condition" in forms


def _later(case: Case, ranks: tuple[int, ...], others: tuple[int, ...], group: Group) -> bool:
    """Whether ranks never requested ``group``, and ``others`` later requested their group."""
    mine, theirs = (
        [list(one.ranks) for one in log.groups if one.phase == "asked"] if log is not None else []
        for log in (case.log(ranks[0]), case.log(others[0]))
    )
    n = sum(one == list(group.ranks) for one in mine)
    return n < sum(one == list(group.ranks) for one in theirs)


def headline(situation: Situation, found: Requests) -> str:
    """Return which ranks requested what, suspects first."""
    named = words.creation if found.site else wait_cycle.creation
    told = [f"{words.ranks(ranks)} called {named(group)}" for ranks, group in found.asked]
    told[-1] += phrases.line(found.site)
    if found.none and (not situation.suspects or {*found.none} & {*situation.suspects}):
        others = words.ranks(rank for ranks, _ in found.asked for rank in ranks)
        group = wait_cycle.creation(found.asked[0][1])
        return f"{words.ranks(found.none)} did not call {group}, {others} did"
    if found.none:
        told.append(f"{words.ranks(found.none)} did not")
    more = len(told) - _MOST
    text = ", ".join(told[:_MOST]) + (f", and {more} more variants" if more > 0 else "")
    return text if situation.suspects else f"ranks disagree: {text}"


def lines_apart(situation: Situation, found: Requests) -> str:
    """Return a sentence on the lines that called a function that makes groups; empty if one."""
    stacks = [situation.case.stack(ranks[0], group) for ranks, group in found.asked]
    depth = phrases.differing_depth(stacks)
    if not depth or len(found.asked) < 2:
        return ""
    came = [
        f"{words.ranks(ranks)} from {words.site(chains.site(stack[depth]))}"
        for (ranks, _), stack in zip(found.asked, stacks, strict=True)
    ]
    return f"They called it from different lines: {words.listed(came)}."


def earlier_difference(situation: Situation, found: Requests) -> str:
    """Return a sentence on the earlier group that two ranks created at different lines, or ""."""
    ranks = [*(those[0] for those, _ in found.asked), *found.none]
    logs = [log for rank in ranks[:2] if (log := situation.case.log(rank)) is not None]
    asked = [{one.ordinal: one for one in log.groups if one.phase == "asked"} for log in logs]
    before = getattr(situation.candidate.source, "seq", 0)
    for n in sorted(n for n in asked[0] if 0 < n < before) if asked else ():
        pair = [one[n] for one in asked if n in one]
        if len(pair) == 2 and pair[0].site != pair[1].site:
            lines = [
                f"rank {log.rank} created it{phrases.line(group.site)}"
                for log, group in zip(logs, pair, strict=True)
            ]
            since = f"They were at other lines since the {words.ordinal(n)} group"
            return f"{since}: {' and '.join(lines)}."
    return ""


def describe_waits(situation: Situation, ranks: tuple[int, ...]) -> str:
    """Return a sentence on what ranks that did not create a group wait in; empty if nothing."""
    told = []
    for rank in ranks[:2]:
        standing = situation.case.standings.get(rank)
        call = standing.last_call if standing is not None and standing.waiting else None
        targets = {edge.target[0] for edge in situation.case.graph.of(rank)}
        if call is not None and targets:
            told.append(f"rank {rank} waits in {phrases.call(call)} for {words.ranks(targets)}")
    return f"{words.upper('; '.join(told))}." if told else ""


def deciding_statement(
    situation: Situation, found: Requests
) -> tuple[Decision | None, tuple[str, ...]]:
    """Return the statement that decided, and sentences on what it did."""
    stacks = [situation.case.stack(ranks[0], group) for ranks, group in found.asked]

    def depth(one: Decision) -> int:
        """Return how many frames a decision's function is away from the request."""
        where = (chains.file(one.site), one.function)
        places = [[chains.place(frame) for frame in stack] for stack in stacks]
        return min((those.index(where) for those in places if where in those), default=_FAR)

    sites = {group.site for _, group in found.asked}
    ranked = [one for one in deciders.ranked(situation) if one.site not in sites]
    ranked.sort(key=lambda one: (deciders.form(one) in ("value", "items"), depth(one)))
    first = next(iter(ranked), None)
    if first is None:
        return None, ()
    rest = [one for one in deciders.rest(situation, first) if one in ranked]
    return first, deciders.reasons(situation, [first, *rest])
