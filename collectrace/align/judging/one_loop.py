"""Whether two calls stand in one loop, by the lines of the function in which their stacks part."""

from __future__ import annotations

from collections.abc import Sequence

from collectrace.align.judging.case import Case
from collectrace.align.reading import chains, statements


def is_one_function(one: Sequence[str], two: Sequence[str]) -> bool:
    """Whether two stacks, innermost first, part in one function, at two lines of it."""
    here, there = chains.outermost_apart(one, two)
    return bool(here) and chains.scope(here) == chains.scope(there)


def part_in_one_loop(case: Case, new: Sequence[str], usual: Sequence[str]) -> bool:
    """Whether two stacks part in one function, and the innermost loop around one is around both.

    Not where the usual one goes on into a function with a loop: that may have been over.
    """
    if not part_in_loop(case, new, usual):
        return False
    further = usual[: len(usual) - chains.shared(new, usual) - 1]
    return not any(statements.loops(case.statements(chains.site(frame))) for frame in further)


def part_in_loop(case: Case, new: Sequence[str], usual: Sequence[str]) -> bool:
    """Whether two stacks part in one function, and the innermost loop around one is around both."""
    if not is_one_function(new, usual):
        return False
    here, there = (
        case.statements(chains.site(frame)) for frame in chains.outermost_apart(new, usual)
    )
    loop = statements.innermost_loop(there)
    return loop is not None and loop in here[:-1]
