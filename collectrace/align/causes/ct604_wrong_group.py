"""One line called a collective on different groups.

What it means
    The same line made the call, but a rank passed another process group than the others. So the
    ranks wait for each other in two groups, or values of two groups are mixed up.

Example
    ::

        for group in groups:             # a set or a dict: another order on each rank
            dist.all_reduce(norm, group=group)

Not to be confused with
    CT606, if a rank skipped a call, or two lines ran in opposite order.

How to fix it
    Pass the same group on every rank. If the line runs for several groups, use one order on all
    ranks, such as ``sorted(...)``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from collectrace import words as words_
from collectrace.align.causes import (
    arguments,
    deciders,
    departed,
    departed_words,
    phrases,
    structure,
    wait_cycle,
)
from collectrace.align.causes.departed import Departed
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.judging.case import Case
from collectrace.align.judging.departures import What
from collectrace.align.judging.own_calls import calls_of
from collectrace.align.matching import habit
from collectrace.align.matching.comparison import Divergence
from collectrace.align.reading import chains
from collectrace.align.reading.evidence import StreamKey
from collectrace.findings import Decision, GroupInfo
from collectrace.records import Call

_MOST_SIDES: Final = 16
"""Sides of a long wait cycle that are compared with all ranks that wait."""


@dataclass(frozen=True, slots=True)
class Passed:
    """The groups that ranks passed at one line."""

    name: str
    """The name of the call."""
    lines: tuple[str, ...]
    """The lines of the call; two if they exchanged their groups."""
    groups: tuple[tuple[tuple[int, ...], GroupInfo], ...]
    """Ranks with their group, suspects first."""
    is_turn: bool = False
    """Whether the line runs for each of these groups in sequence."""
    is_unusual: bool = False
    """Whether the last of the groups is the one that the line ran in before."""


def find(situation: Situation) -> Passed | None:
    """Return the groups that ranks passed at one line."""
    source, case, suspects = situation.candidate.source, situation.case, situation.suspects
    groups, called = case.comparison.groups, situation.called
    sites = tuple(dict.fromkeys(call.site for _, call in called if call.site))
    if isinstance(source, Divergence):
        if source.crosses is None:
            return _unusual(situation) or _beside(situation)
        both = ((called[0][0].ranks, source.group), ((), groups[source.crosses]))
        return Passed(words_.name(called[0][1]), sites, both)
    left = departed.find(situation)
    ops = {(call.op, side.call.site) for side, call in called if side.call is not None}
    # A call that is lost still shows where its rank waits.
    waits = [edge.waiting for edge in situation.candidate.cycle]
    ops |= {(one.op, one.site) for one in waits}
    if not called or len(ops) != 1 or any(one.stream is None for one in waits):
        other = _other_than_before(situation, left) if left is not None else None
        return other or _beside(situation)
    is_other = left is not None and left.what is What.OTHER_CALL
    (op, line) = next(iter(ops))
    passed: dict[str, list[int]] = {}
    for rank, standing in sorted(case.standings.items()):
        for one in standing.waiting:
            if one.stream is not None and one.op == op:
                passed.setdefault(one.group, []).append(rank)
    told = [(tuple(ranks), groups[name]) for name, ranks in passed.items() if name in groups]
    if not told or (not is_other and len(passed) < 2):
        return None
    told.sort(key=lambda one: not {*one[0]} & {*suspects})
    if suspects:
        others = ((tuple(r for r in ranks if r not in suspects), info) for ranks, info in told[1:])
        told = [(suspects, told[0][1]), *(one for one in others if one[0])]
    is_turn = all(
        len(_groups_at(case, edge.waiting.rank, line)) > 1 for edge in situation.candidate.cycle
    )
    return Passed(words_.name(called[0][1]), sites[:1], tuple(told), is_turn)


def _groups_at(case: Case, rank: int, line: str | None) -> set[str]:
    """Return the groups in which a rank made several calls at a line."""
    here = (o for o in calls_of(case, rank) if o.stack and chains.site(o.stack[0]) == line)
    return {name for name, times in Counter(one.key.group for one in here).items() if times > 1}


def _unusual(situation: Situation) -> Passed | None:
    """Return the suspects' groups at a line that had run in one other group each time before."""
    case, suspects = situation.case, situation.suspects
    mine = [call for side, call in situation.called if {*side.ranks} == {*suspects} and side.call]
    if len(mine) != 1 or mine[0].peer is not None:
        return None
    usual: set[str] = set()
    for rank in suspects:
        before = _groups_before(case, rank, mine[0])
        if len(before) != 1 or mine[0].group in before or before.total() < habit.ENOUGH:
            return None
        usual |= before.keys()
    return _passed_unusually(case, suspects, mine[0], usual)


def _beside(situation: Situation) -> Passed | None:
    """Return the groups of a line at which other ranks wait for the same rank in another group."""
    case, groups = situation.case, situation.case.comparison.groups
    for side, call in situation.called[:_MOST_SIDES]:
        waiting: dict[str, list[int]] = {}
        for standing in case.standings.values():
            for one in standing.waiting:
                if one.stream is None or one.group not in groups:
                    continue
                if (one.op, one.site) != (call.op, call.site):
                    continue
                lacks = [r for r in side.ranks if _lacks(case, r, one.stream, one.seq)]
                if one.group != call.group and lacks == [*side.ranks]:
                    waiting.setdefault(one.group, []).append(one.rank)
        if len(waiting) == 1:
            [(name, ranks)] = waiting.items()
            both = ((side.ranks, groups[call.group]), (tuple(ranks), groups[name]))
            return Passed(words_.name(call), (call.site or "",), both)
    return None


def _lacks(case: Case, rank: int, stream: StreamKey, seq: int | None) -> bool:
    """Whether a rank is in a group, and has not made a call there."""
    log = case.log(rank)
    is_member = rank in case.comparison.groups[stream.group].ranks
    return is_member and log is not None and log.last_seq.get(stream, 0) < (seq or 0)


def _other_than_before(situation: Situation, left: Departed) -> Passed | None:
    """Return the groups of a rank that departed from its usual group at one line."""
    call, usual = left.call, left.usual
    if left.what is not What.OTHER_CALL or usual is None or call.peer is not None:
        return None
    if (call.op, call.site) != (usual.op, usual.site) or len(left.ranks) != 1:
        return None
    before = _groups_before(situation.case, left.ranks[0], call)
    usual_groups = before.keys() - {call.group}
    return _passed_unusually(situation.case, left.ranks, call, usual_groups)


def _groups_before(case: Case, rank: int, call: Call) -> Counter[str]:
    """Return the groups of a rank's earlier calls from the place of one call."""
    made = calls_of(case, rank)
    here = next((one for one in made if (one.key.group, one.seq) == (call.group, call.seq)), None)
    return Counter(
        one.key.group for one in made if here and one.place == here.place and one.t < here.t
    )


def _passed_unusually(
    case: Case, ranks: tuple[int, ...], call: Call, usual: set[str]
) -> Passed | None:
    groups = case.comparison.groups
    if len(usual) != 1 or not {*usual, call.group} <= groups.keys():
        return None
    told = ((ranks, groups[call.group]), ((), groups[next(iter(usual))]))
    return Passed(words_.name(call), (call.site or "",), told, is_unusual=True)


def _gives(situation: Situation, decision: Decision) -> bool:
    """Whether a loop gave each call its group: a loop over names, or one that all ranks are in."""
    if deciders.form(decision) == "items":
        return arguments.is_over_names(decision)
    stacks = [side.stack or () for side, _ in situation.called]
    return deciders.form(decision) == "loop" and all(
        # A comprehension is on the stack itself.
        structure.is_in_loop(situation, decision, stack) or decision.site in map(chains.site, stack)
        for stack in stacks
    )


def _set_at(situation: Situation, found: Passed) -> Decision | None:
    """Return the line that gave a call its group, in the function of the call.

    A condition tells more than an assignment, and a later line more than an earlier one. If
    ranks wait for each other, other lines may be about what they wait in.
    """
    inside = [
        chains.scope(frame) for frame in situation.case.frames if chains.site(frame) in found.lines
    ]
    given = [one for one in situation.decisions if one.sides and one.sides[0].did == "value"]
    own = [one for one in given if (chains.file(one.site), one.function) in inside]
    if not own and isinstance(situation.candidate.source, Divergence):
        own = given
    return max(own, key=lambda one: (_is_choice(one), chains.split(one.site)), default=None)


def _headline(found: Passed, lines: str, name: Callable[[GroupInfo], str]) -> str:
    (who, info), *others = found.groups
    rest = f", {words_.ranks(others[0][0])} on {name(others[0][1])}" if others else ""
    return f"{words_.ranks(who)} called {found.name} ({lines}) on {name(info)}{rest}"


def _members(group: GroupInfo) -> str:
    named = words_.group(group)
    return named if named == words_.DEFAULT_GROUP else f"{named} ({words_.ranks(group.ranks)})"


def _is_choice(decision: Decision) -> bool:
    """Whether a statement chooses between assignments of a name."""
    is_value = bool(decision.sides) and decision.sides[0].did == "value"
    return is_value and decision.text.startswith(("if ", "elif ", "match ", "case "))


def words(situation: Situation, found: Passed) -> Words:
    """Return the words for a line with different groups."""
    lines = " and ".join(words_.site(line) for line in found.lines)
    (who, info), *others = found.groups
    if len(found.lines) > 1:
        both = " and ".join(words_.group(group) for _, group in found.groups)
        return Words(
            f"{words_.ranks(who)} exchanged {both} between two lines",
            (
                f"At {lines}, each {found.name} ran in the group of the other line.",
                "Size and dtype agree, so no error is raised, but values that do not belong "
                "together are combined.",
            ),
            ("Pass the same group on every rank at each of these lines.",),
        )
    if found.is_unusual:
        here, usual = map(_members, (info, others[0][1]))
        set_at = _set_at(situation, found)
        why: tuple[str, ...] = (
            f"In every call before, {words_.ranks(who)} passed {usual} at {lines}.",
        )
        if set_at is not None:
            why += (f"The group may come from {deciders.quoted(set_at)}.",)
        change = f": change {words_.site(set_at.site)}" if set_at is not None else ""
        return Words(
            f"{words_.ranks(who)} called {found.name} ({lines}) on {here} instead of {usual}",
            why, (f"Pass {usual} at {lines}, as before{change}.",),
        )  # fmt: skip
    headline = phrases.fitting(
        *(_headline(found, lines, name) for name in (_members, words_.group))
    )
    if situation.is_tie and situation.candidate.cycle:
        ranks = words_.ranges(edge.waiting.rank for edge in situation.candidate.cycle)
        alone = words_.listed([words_.group(group) for _, group in found.groups])
        told = [f"{words_.group(one)} ({words_.ranks(those)})" for those, one in found.groups]
        at = f"ranks {ranks} disagree: {found.name} ({lines}) on"
        headline = phrases.fitting(f"{at} {words_.listed(told)}", f"{at} {alone}")
    decision = departed_words.deciding_statement(situation)
    if decision is not None and deciders.form(decision) == "condition":
        decision = None  # it led to the line, not to a group
    why, change = (), ""
    choice = _set_at(situation, found)
    if choice is not None and _is_choice(choice):
        decision, change = choice, f" Change the condition in {words_.site(choice.site)}."
        chosen = f"{deciders.quoted(choice)} chooses the group"
        why = (f"{chosen}. {deciders.depends(choice, 'The condition')}".rstrip(),)
    elif decision is not None:
        why = deciders.reasons(situation, [decision])
    elif isinstance(situation.candidate.source, Divergence) and others and others[0][0]:
        waits = words_.verb(others[0][0], "waits", "wait")
        named = [f"{words_.group(one)} ({words_.ranks(one.ranks)})" for _, one in found.groups]
        why = (
            f"{words_.upper(words_.ranks(others[0][0]))} {waits} there for {words_.ranks(who)}: "
            f"one line passed {' and '.join(named)}.",
        )
    through = deciders.quoted(decision) if decision is not None else lines
    order = (
        "use the same order on every rank, such as sorted(...) of names that all ranks share. A "
        "set, or a dict that each rank fills by itself, has another order on each."
    )
    gives = decision if decision is not None and _gives(situation, decision) else None
    if found.is_turn or gives is not None:
        where = lines if found.is_turn else through
        several = sorted({words_.group(group) for _, group in found.groups})
        which = words_.listed(several) if len(several) > 1 else "the groups"
        what = f"The calls at {where} go" if found.is_turn else f"{where} goes"
        said = f"{what} through several groups: the order can differ."
        why = (said, *(why if gives is None else filter(None, (deciders.depends(gives, "It"),))))
        fixes: tuple[str, ...] = (f"Go through {which} in one order at {where}: {order}",)
    else:
        usual = f": {words_.group(others[0][1])}" if situation.suspects and others else ""
        fixes = (f"Pass the same group on every rank at {lines}{usual}.{change}",)
        if decision is None or deciders.form(decision) != "value":
            fixes += (f"Or if {through} goes through several groups: {order}",)
    return Words(headline, (*why, wait_cycle.waits(situation))[:3], fixes)
