"""Ranks that had fewer rounds of a loop than others: a shorter loop, or a round left out.

That a rank has run out of rounds does not tell which. By the lines between the loop and the call:
where nothing there can leave out a round, the loop was shorter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from collectrace import words
from collectrace.align.diagnosis import ways_past
from collectrace.align.diagnosis.loop_lines import LoopLine, outermost_loop
from collectrace.align.diagnosis.standpoint import Standpoint
from collectrace.align.diagnosis.ways_past import MOST, WayPast
from collectrace.align.diagnosis.wording import EVERY_RANK, ONE_LENGTH, if_ended, quoted
from collectrace.align.judging.case import Case
from collectrace.align.reading import chains, statements


class Fewer(NamedTuple):
    """How ranks may have come to fewer rounds of a loop than others that are in it."""

    cause: str
    """The ways that lead past the call, after a space; empty: none, or too many."""
    fix: str
    left_out: bool
    """Whether a round may have been left out: else their loop was shorter, that is all."""

    def applied(self, known: str = "") -> str:
        """What to change; ``known``: about a condition around the call."""
        fixes = [one for one in (known, self.fix) if one]
        if not self.left_out and not fixes:
            return ONE_LENGTH
        return "\n".join([*(fixes or [EVERY_RANK]), if_ended()])


def seen(case: Case, point: Standpoint, who: Sequence[int], of: LoopLine | None = None) -> Fewer:
    """By what is seen around others' call: conditions in the loop, and the ways past it.

    Args:
        case: the case.
        point: the others.
        who: who had fewer rounds.
        of: the loop; the outermost around the others' call where it is not known.

    """
    loop = _place(case, point, of)
    if loop is None:
        return Fewer("", "", left_out=True)
    ways = _ways(case, point, loop)
    exits = [way for way in ways if _is_exit(case, way, point.stack, loop)]
    left_out = len(exits) < len(ways) or not _is_plain_in(case, point.stack, loop)
    if not 0 < len(ways) <= MOST:
        between = _between_loop(case, point.stack, loop) if left_out else []
        stands = words.verb(between, "stands", "stand")
        return Fewer(
            f" Within it {stands} {words.listed(between)}." if between else "", "", left_out
        )
    past = ways_past.of_others(point, who, ways)
    return Fewer(past.sentence if left_out else past.out_of_loop, past.fix, left_out)


def left_out_by(case: Case, point: Standpoint, of: LoopLine) -> list[WayPast]:
    """The ways that leave a call out of a round of a loop around it, and stay in that."""
    loop = _place(case, point, of)
    if loop is None:
        return []
    return [way for way in _ways(case, point, loop) if not _is_exit(case, way, point.stack, loop)]


def _place(case: Case, point: Standpoint, of: LoopLine | None) -> tuple[int, int] | None:
    """Which frame of a stack a loop is in, and its line; the outermost where none is given."""
    if of is None:
        return outermost_loop(case, point.stack)
    for n, frame in enumerate(point.stack):
        if chains.file(frame) == of.file and of.line in case.statements(chains.site(frame)):
            return n, statements.number_of(of.line)
    return outermost_loop(case, point.stack)


def _ways(case: Case, point: Standpoint, loop: tuple[int, int]) -> list[WayPast]:
    found = ways_past.of_frames(case, point.stack)
    return [way for way in found if _is_of_rounds(way, point.stack, loop)]


def _is_plain_in(case: Case, stack: Sequence[str], loop: tuple[int, int]) -> bool:
    """Whether no condition stands between a loop and a call in it; not so where a line is unknown.

    That a loop within it may have no turn is told with it: it is shorter there.
    """
    last, first = loop
    for n, frame in enumerate(stack[: last + 1]):
        own = statements.own(case.statements(chains.site(frame)))
        inside = own if n < last else [line for line in own if statements.number_of(line) > first]
        conditions = (statements.code_of(line) for line in statements.branches(inside))
        if n == last and own and statements.number_of(own[-1]) == first:
            return " if " not in own[-1]  # a comprehension
        if statements.decides_itself(own) or any(
            not text.startswith("while ") for text in conditions
        ):
            return False
    return True


def _between_loop(case: Case, stack: Sequence[str], loop: tuple[int, int]) -> list[str]:
    """The loops and conditions between a loop and a call in it, quoted; the innermost of many."""
    last, first = loop
    found = []
    for n, frame in reversed(list(enumerate(stack[: last + 1]))):
        own = statements.own(case.statements(chains.site(frame)))
        inside = own if n < last else [line for line in own if statements.number_of(line) > first]
        found += [quoted(chains.file(frame), line) for line in statements.deciding(inside)]
    return found[-MOST:]


def _is_exit(case: Case, way: WayPast, stack: Sequence[str], loop: tuple[int, int]) -> bool:
    """Whether a way leads out of a loop, and not only past a round of it."""
    last, first = loop
    if way.site in [chains.site(frame) for frame in stack[:last]]:
        return False
    lines = statements.own(case.statements(way.site))
    inside = [line for line in lines if statements.number_of(line) > first]
    if way.is_handler:
        tries = [line for line in inside if statements.code_of(line).startswith(("try", "with"))]
        return way.site != chains.site(stack[last]) or not tries
    if way.leaves == "break":
        return not any(statements.number_of(one) > first for one in statements.loops(lines))
    return way.leaves == "return"


def _is_of_rounds(way: WayPast, stack: Sequence[str], loop: tuple[int, int]) -> bool:
    """Whether a way may be taken from within a loop: by an exception it may be from anywhere."""
    last, first = loop
    inside = [chains.site(frame) for frame in stack[:last]]
    within = way.site == chains.site(stack[last]) and statements.number_of(way.line) > first
    return way.is_handler or way.site in inside or within
