"""What may leave a call out of a round, by the source: conditions, loops, and ways past it.

Of the call's own line and of its callers', up to the function in which the round goes on to what
comes behind. Whether a condition was ever true, it does not tell; that there is none, it does.
"""

from __future__ import annotations

from collections.abc import Sequence

from collectrace.align.judging.case import Case
from collectrace.align.reading import chains, statements


def conditions(case: Case, apart: Sequence[str], there: str) -> list[str] | None:
    """The conditions around a call, as ``number text``, that are not around another line as well.

    Not those of loops. None where they are not all known.

    Args:
        case: the run.
        apart: the frames above the call, innermost first, as far as the two differ.
        there: the frame of the other line, in the function of the last of them.

    """
    scopes = [chains.scope(frame) for frame in apart]
    if scopes[-1] in scopes[:-1]:
        return None  # recursion: which of them the other line is in is not known
    found: list[str] = []
    for frame in apart:
        own = statements.own(case.statements(chains.site(frame)))
        if not own:
            return None
        within = statements.loops(own)
        found += _beside(
            case, frame, there, [n for n in statements.branches(own) if n not in within]
        )
        found += own[-1:] if statements.decides_itself(own) else []
    return [line for line in found if "__name__" not in line]


def loops(case: Case, apart: Sequence[str], there: str) -> list[str]:
    """The loops around a call, as ``number text``, but for those around the other line as well."""
    return [
        line
        for frame in apart
        for line in _beside(
            case, frame, there, statements.loops(case.statements(chains.site(frame)))
        )
    ]


def _beside(case: Case, frame: str, there: str, around: Sequence[str]) -> list[str]:
    """Of what is around a frame's line that which is not around the other."""
    if chains.file(frame) != chains.file(there):
        return list(around)
    return [line for line in around if line not in case.statements(chains.site(there))]


def of_call(
    case: Case, call: Sequence[str], behind: Sequence[str], *, is_first: bool = False
) -> list[str] | None:
    """All that may leave a call out of a round that goes on behind it, as ``number text``.

    Loops that go so often whatever comes, and conditions on nothing but the rank, may not. A way
    past the call is told as a ``source`` record has it, with what it leaves by.

    Args:
        case: the run.
        call: the frames above the call, innermost first.
        behind: those above what comes behind it.
        is_first: it is the first of its round, to which no later turn of a loop belongs.

    Returns:
        None where it is not known.

    """
    common = chains.shared(call, behind)
    if common >= min(len(call), len(behind)):
        return None
    apart, there = call[: len(call) - common], behind[-1 - common]
    if chains.scope(apart[-1]) != chains.scope(there):
        return None
    around = conditions(case, apart, there)
    if around is None:
        return None
    found = [line for line in around if not statements.asks_rank_alone(line)]
    found += [line for line in loops(case, apart, there) if not statements.is_of_fixed_length(line)]
    for frame in apart:
        for way in case.ways(chains.site(frame)):
            is_behind = statements.number_of(way) >= chains.line(frame)
            leaves, _ = statements.way_of(way)
            if not (leaves == "raise" or (is_first and is_behind)):
                found.append(way)
    return list(dict.fromkeys(found))


def is_handler(way: str) -> bool:
    """Whether a way past a call takes an exception: ``number leaves number except ...``."""
    _, line = statements.way_of(way)
    return statements.code_of(line).startswith("except")
