"""All that may have decided about a call, where nothing more is known than that some went past it.

By the lines of the functions that lead to it, from where the ranks part: conditions, loops that may
have had another number of turns, lines that decide by themselves (``x and f()``), jumps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from collectrace import words
from collectrace.align.diagnosis import gone_past, ways_past
from collectrace.align.diagnosis.standpoint import Standpoint
from collectrace.align.diagnosis.wording import (
    EVERY_RANK,
    ONE_LENGTH,
    Reason,
    is_vague,
    place_of_line,
    quoted,
    without_vague,
)
from collectrace.align.judging import intervals
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.reading import chains, statements

_MOST: Final = 3
"""Statements of a kind that are named, the innermost; where there are more, they tell nothing."""


class Deciders(NamedTuple):
    """What decides whether, and how often, a call is made; innermost first, as they are quoted."""

    loops: Sequence[str]
    conditions: Sequence[str]
    """Those around it, and lines that decide by themselves."""
    places: Sequence[str]
    """``train.py:12``, of these."""
    ways: Sequence[ways_past.WayPast]

    @property
    def quotes(self) -> Iterator[str]:
        """All of them."""
        yield from self.loops
        yield from self.conditions
        yield from (way.quoted for way in self.ways)


def added(case: Case, candidate: Candidate, reason: Reason) -> Reason:
    """A reason with these, where it names nothing that decided."""
    if candidate.cause is not None or not (is_vague(reason.cause) or EVERY_RANK in reason.fix):
        return reason
    order = gone_past.order_of_sides(case, candidate)
    if order is None or words.at(order.left.call) not in reason.cause:
        return reason
    found = of_frames(case, order.apart, order.there)
    told = sentence(found, order.left, order.gone.ranks)
    if not told or any(quote in reason.cause for quote in found.quotes):
        return reason
    rest = [line for line in reason.fix.split("\n") if line != EVERY_RANK]
    fixed = "\n".join(dict.fromkeys([*fixes(found, order.left), *rest]))
    return reason._replace(cause=without_vague(reason.cause) + told, fix=fixed)


def of_frames(case: Case, apart: Sequence[str], there: str = "") -> Deciders:
    """What decides in some frames above a call, innermost first.

    ``there``: a frame of another line, in the function of the last of them: what is around that as
    well does not count.
    """
    loops, conditions, places, ways = (
        list[str](),
        list[str](),
        list[str](),
        list[ways_past.WayPast](),
    )
    known = set(case.statements(chains.site(there))) if there else set()
    for frame in apart:
        file, site = chains.file(frame), chains.site(frame)
        own = statements.own(case.statements(site))
        around = [one for one in own[:-1] if one not in known or file != chains.file(there)]
        within = statements.loops([*around, *own[-1:]])
        loops += [quoted(file, one) for one in reversed(within)]
        deciding = [
            one
            for one in reversed(statements.branches([*around, *own[-1:]]))
            if one not in within and "__name__" not in one
            if not intervals.is_by_turns(case, site, one)
        ]
        if own and statements.decides_itself(own):
            deciding.insert(0, own[-1])
        conditions += [quoted(file, one) for one in deciding]
        places += [place_of_line(file, one) for one in deciding]
        ways += ways_past.of_frame(case, frame)
    return Deciders(loops, conditions, places, ways)


def sentence(found: Deciders, left: Standpoint, who: Sequence[int]) -> str:
    """What may have led some past a call, after a space; empty: nothing, or too much is seen."""
    loops, conditions, _, ways = found
    if max(map(len, (loops, conditions, ways))) > _MOST or not any((loops, conditions, ways)):
        return ""
    whose, parts = words.ranks(who), list[str]()
    if loops:
        parts.append(
            f"{words.listed(list(loops))} may have had more turns on {words.ranks(left.ranks)} "
            f"than on {whose}"
        )
    if conditions:
        parts.append(f"{_either(conditions)} may have sent {whose} another way")
    if ways:
        parts.append(f"{ways_past.told(ways)} may have led {whose} past it")
    return f" On the way to {words.name(left.call)}{words.at(left.call)} {'; '.join(parts)}."


def _either(quotes: Sequence[str]) -> str:
    return " or ".join(dict.fromkeys(quotes))


def fixes(found: Deciders, left: Standpoint) -> list[str]:
    """What to change about them, a line each."""
    told = []
    if found.conditions:
        told.append(
            f"Let all ranks decide together at {_either(found.places)}: combine what each finds "
            "first (an all_reduce of the flag, MIN or MAX), and let every rank take the same way."
        )
    if found.ways:
        told.append(ways_past.fix(found.ways, words.name(left.call)))
    if found.loops:
        told.append(ONE_LENGTH)
    return told
