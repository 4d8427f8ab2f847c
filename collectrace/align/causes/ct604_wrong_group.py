"""One line called a collective on different groups.

What it means
    The same line of the program made the call, but a rank passed another process group than the
    others. So the ranks wait for each other in two groups, or values of two groups are mixed up.

Example
    ::

        for group in groups:             # a set or a dict: another order on each rank
            dist.all_reduce(norm, group=group)

Not to be confused with
    CT605, if two lines are called in opposite order. CT606, if a rank skipped a call.

How to fix it
    Pass the same group on every rank. If the line runs for several groups, use one order on all
    ranks, such as ``sorted(...)``.
"""

from __future__ import annotations

from dataclasses import dataclass

from collectrace import words as words_
from collectrace.align.causes import deciders, departed, wait_cycle
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.judging.departures import What
from collectrace.align.matching.comparison import Divergence


@dataclass(frozen=True, slots=True)
class Swapped:
    """A line, and which group ranks passed there."""

    site: str
    groups: tuple[tuple[tuple[int, ...], str, str], ...]
    """Ranks, their call, their group; those to blame first."""
    lines: tuple[str, ...] = ()
    """The two lines whose groups were exchanged, if the calls fitted all the same."""
    is_turn: bool = False
    """Whether the line runs for each of these groups, one after the other."""


def find(situation: Situation) -> Swapped | None:
    """Return the line that ranks called on different groups."""
    source, case = situation.candidate.source, situation.case
    if isinstance(source, Divergence):
        if source.crosses is None:
            return None
        names = case.comparison.groups[source.crosses], source.group
        lines = tuple(words_.site(call.site) for _, call in situation.called if call.site)
        groups = tuple(("", words_.group(info)) for info in names)
        sides = [(side.ranks, words_.name(call)) for side, call in situation.called]
        told = tuple((*one, group) for one, (_, group) in zip(sides, groups, strict=False))
        return Swapped("", told, lines)
    waits = [(edge.waiting, call) for edge in situation.candidate.cycle
             if (call := wait_cycle.calls(situation).get(edge.waiting.rank)) is not None]
    if not waits or any(call.peer is not None for _, call in waits):
        return None
    lines_ = {(call.op, side.call.site) for side, call in situation.called if side.call}
    left = departed.find(situation)
    is_other = left is not None and left.what is What.OTHER_CALL
    if len(lines_) != 1 or (not is_other and len({call.group for _, call in waits}) < 2):
        return None
    by_group: dict[str, list[int]] = {}
    for rank, standing in sorted(case.standings.items()):
        for one in standing.waiting:
            if one.stream is not None and one.op == waits[0][1].op:
                by_group.setdefault(one.group, []).append(rank)
    told = [
        (tuple(ranks), words_.name(waits[0][1]), words_.group(case.comparison.groups[name]))
        for name, ranks in by_group.items()
        if name in case.comparison.groups
    ]
    suspects = set(situation.suspects)
    told.sort(key=lambda one: not suspects & {*one[0]})
    if suspects:
        rest = [(tuple(r for r in one[0] if r not in suspects), *one[1:]) for one in told[1:]]
        told = [(tuple(sorted(suspects)), *told[0][1:]), *(one for one in rest if one[0])]
    is_turn = _is_turn(situation, waits[0][0].rank, {call.group for _, call in waits})
    return Swapped(next(iter(lines_))[1] or "", tuple(told), is_turn=is_turn)


def _is_turn(situation: Situation, rank: int, groups: set[str]) -> bool:
    """Whether a rank called a line on several groups before."""
    log = situation.case.log(rank)
    site = situation.called[0][1].site
    calls = (
        (stream.group, call)
        for stream in (log.last_seq if log is not None else ())
        for call in situation.case.before(rank, stream, log.last_seq[stream] if log else 0)
    )
    made = {group for group, call in calls if call is not None and call.site == site}
    return groups <= made and len(groups) > 1


def words(situation: Situation, found: Swapped) -> Words:
    """Return the words for a line with different groups."""
    if found.lines:
        ranks, name, _ = found.groups[0]
        both = " and ".join(group for *_, group in found.groups)
        return Words(
            f"{words_.ranks(ranks)} exchanged {both} between {' and '.join(found.lines)}",
            (
                f"Each {name} of these lines ran in the group of the other. Size and dtype agree, "
                "so no error is raised, but values that do not belong together are combined.",
            ),
            ("Pass the same group on every rank at each of these lines.",),
        )
    place = words_.site(found.site)
    (who, name, group), *others = found.groups
    others_ = ", ".join(f"{words_.ranks(ranks)} on {group}" for ranks, _, group in others[:2])
    headline = f"{words_.ranks(who)} called {name} ({place}) on {group}, {others_}"
    if not situation.suspects:
        headline = f"{words_.ranks(edge.waiting.rank for edge in situation.candidate.cycle)} disagree: {name} ({place}) on {words_.listed([g for *_, g in found.groups])}"
    if found.is_turn:
        headline = f"{words_.ranks(who)} called {name} ({place}) on {group} first, {others_}"
    first = next(iter(deciders.ranked(situation)), None)
    why = deciders.reasons(situation, [first, *deciders.rest(situation, first)]) if first else ()
    right = f": {others[0][2]}" if situation.suspects and len(others) == 1 else ""
    if found.is_turn:
        return Words(
            headline,
            (
                "In the iterations before, this line went through these groups in one order.",
                wait_cycle.waits(situation),
                *why[:1],
            ),
            (
                f"Go through the groups in the same order on every rank at {place}: sorted(...), or "
                "a list made once, never a set, or a dict that each rank fills by itself.",
                f"Or, if {words_.ranks(who)} has nothing for one of the groups, let it take part "
                "with zeros.",
            ),
        )
    through = deciders.quoted(first) if first is not None else place
    return Words(
        headline,
        (wait_cycle.waits(situation), *why[:2]),
        (
            f"Pass the same group on every rank at {place}{right}.",
            f"Or, if {through} goes through several groups: use the same order on every rank, "
            "such as sorted(...) of names that all ranks share.",
        ),
    )
